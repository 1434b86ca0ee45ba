"""Lines' own recipes lose the knobs and presets that are gone, and operators are told which."""

from django.db import migrations

GONE = {
    "top_k", "support", "trust", "w_kept", "w_dpo", "dpo_beta", "w_again", "advantage_clip", "clip_low", "clip_high",
    "importance_cap", "most_kl", "warmup", "weight_decay", "max_grad_norm", "lora_alpha", "holdout_after",
}
GONE_OF_GATE = {
    "handful", "temperature", "hints", "examples", "again", "empty", "repetition", "preference", "rated", "certainty",
    "own_fall", "own_enough", "own_keeps", "pack_nats", "gap", "copied", "entropy",
}
PRESETS = {"topk-teacher": "topk", "topk-union": "topk"}


def delete(apps, schema_editor):
    notices = apps.get_model("checkpoints", "Notice").objects
    for line in apps.get_model("checkpoints", "Line").objects.order_by("pk"):
        kept = {name: value for name, value in line.recipe.items() if name not in GONE}
        gone = sorted(GONE & line.recipe.keys())
        if isinstance(gate := kept.get("gate"), dict):
            gone += sorted(f"gate.{name}" for name in GONE_OF_GATE & gate.keys())
            kept["gate"] = {name: value for name, value in gate.items() if name not in GONE_OF_GATE}
            if not kept["gate"]:
                del kept["gate"]
        if (preset := kept.get("preset")) in PRESETS:
            kept["preset"] = PRESETS[preset]
            gone.append(f"the preset {preset}, now {PRESETS[preset]}")
        if gone:
            line.recipe = kept
            line.save(update_fields=["recipe"])
            text = f"The recipe of the line {line.title or line.name} named what is gone: {', '.join(gone)}. It was deleted: each is fixed, as in the presets."
            notices.create(level="warning", text=text)


class Migration(migrations.Migration):
    dependencies = [("training", "0003_turn_round"), ("checkpoints", "0004_no_run")]
    operations = [migrations.RunPython(delete, migrations.RunPython.noop)]
