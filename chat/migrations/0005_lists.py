"""Folders, pins, the archive and the bin; imports; what can be found, with each database's own index over it."""

import sqlite3

import chat.search.passages
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from chat.rendering.markdown import plain
from chat.search.keeping import words_said
from chat.search.words import index_words
from chat.turns import shorten


CHUNK = 100

SQLITE = """
CREATE VIRTUAL TABLE chat_passage_index USING fts5(
    words, content='chat_passage', content_rowid='id', tokenize='unicode61 remove_diacritics 0', prefix='2'
);
CREATE TRIGGER chat_passage_added AFTER INSERT ON chat_passage BEGIN
    INSERT INTO chat_passage_index (rowid, words) VALUES (new.id, new.words);
END;
CREATE TRIGGER chat_passage_gone AFTER DELETE ON chat_passage BEGIN
    INSERT INTO chat_passage_index (chat_passage_index, rowid, words) VALUES ('delete', old.id, old.words);
END;
CREATE TRIGGER chat_passage_changed AFTER UPDATE OF words ON chat_passage BEGIN
    INSERT INTO chat_passage_index (chat_passage_index, rowid, words) VALUES ('delete', old.id, old.words);
    INSERT INTO chat_passage_index (rowid, words) VALUES (new.id, new.words);
END;
"""
"""A later migration that makes `chat_passage` anew must make its triggers anew too: SQLite drops them with it."""

POSTGRESQL = """
ALTER TABLE chat_passage ADD COLUMN lexemes tsvector
    GENERATED ALWAYS AS (array_to_tsvector(array_remove(string_to_array(words, ' '), ''))) STORED;
CREATE INDEX chat_passage_lexemes ON chat_passage USING gin (lexemes) WITH (fastupdate = off);
"""


def make_index(apps, schema_editor):
    connection = schema_editor.connection
    if connection.vendor == "postgresql":
        schema_editor.execute(POSTGRESQL)
        return
    with connection.cursor() as cursor:
        statement = ""
        for line in SQLITE.splitlines(keepends=True):  # a trigger holds semicolons
            statement += line
            if sqlite3.complete_statement(statement):
                cursor.execute(statement)
                statement = ""


def drop_index(apps, schema_editor):
    if schema_editor.connection.vendor != "postgresql":
        with schema_editor.connection.cursor() as cursor:
            cursor.execute("DROP TABLE chat_passage_index")


def fill(apps, schema_editor):
    """Have what was said before be found, and take Markdown's marks out of titles that were made of it."""
    Turn, Session = apps.get_model("chat", "Turn"), apps.get_model("chat", "Session")
    Passage = apps.get_model("chat", "Passage")
    alias = schema_editor.connection.alias
    found = Turn.objects.using(alias).filter(line="main").exclude(session__named_by="key")  # agents' attempts
    keys = list(found.order_by("position").values_list("pk", flat=True))
    firsts = {}
    for start in range(0, len(keys), CHUNK):
        rows = Turn.objects.using(alias).filter(pk__in=keys[start : start + CHUNK]).select_related("session")
        passages = []
        for turn in rows.only("messages", "text", "rule", "created_at", "position", "session__user", "session__title"):
            said = words_said(turn.messages, turn.rule.partition("/")[0])
            if said and (turn.session_id not in firsts or turn.position < firsts[turn.session_id][0]):
                firsts[turn.session_id] = (turn.position, said[:2000])
            passages.append(
                Passage(
                    user_id=turn.session.user_id,
                    session_id=turn.session_id,
                    turn_id=turn.pk,
                    said=said,
                    words=index_words(said, turn.text),
                    at=turn.created_at,
                )
            )
        Passage.objects.using(alias).bulk_create(passages)
    titles = []
    for session in Session.objects.using(alias).exclude(title="").exclude(named_by="key").only("user", "title", "active_at").iterator():
        _, said = firsts.get(session.pk, (0, ""))
        if said and session.title == shorten(said):
            session.title = shorten(plain(said))
            Session.objects.using(alias).filter(pk=session.pk).update(title=session.title)
        words = index_words(session.title)
        titles.append(
            Passage(
                user_id=session.user_id, session_id=session.pk, said=session.title, words=words, at=session.active_at
            )
        )
    Passage.objects.using(alias).bulk_create(titles, batch_size=CHUNK)


class Migration(migrations.Migration):

    dependencies = [
        ('chat', '0004_branches'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Folder',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=60)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'ordering': (django.db.models.functions.text.Lower('name'), 'pk'),
            },
        ),
        migrations.CreateModel(
            name='Import',
            fields=[
                ('moved_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now)),
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('shown', 'Shown'), ('asked', 'Asked'), ('done', 'Done'), ('failed', 'Failed')], db_index=True, default='shown', max_length=8)),
                ('kind', models.CharField(max_length=12)),
                ('found', models.JSONField(default=dict)),
                ('done', models.PositiveIntegerField(default=0)),
                ('stored', models.JSONField(blank=True, default=dict)),
                ('error', models.TextField(blank=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('done_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'ordering': ('-created_at',),
            },
        ),
        migrations.CreateModel(
            name='Passage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('said', models.TextField(blank=True)),
                ('words', chat.search.passages.WordsField(blank=True)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='session',
            name='one_session_a_name',
        ),
        migrations.AddField(
            model_name='session',
            name='archived_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='session',
            name='deleted_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='session',
            name='imported_as',
            field=models.CharField(blank=True, max_length=64),
        ),
        migrations.AddField(
            model_name='session',
            name='pinned_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='session',
            name='was_learning',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='folder',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='folders', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='session',
            name='folder',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='sessions', to='chat.folder'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(fields=['user', '-active_at', '-id'], name='sessions_of_people'),
        ),
        migrations.AddIndex(
            model_name='session',
            index=models.Index(condition=models.Q(('deleted_at', None), _negated=True), fields=['deleted_at'], name='sessions_in_bin'),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.UniqueConstraint(condition=models.Q(models.Q(('external_id', ''), _negated=True), ('deleted_at', None)), fields=('key', 'external_id'), name='one_session_a_name'),
        ),
        migrations.AddConstraint(
            model_name='session',
            constraint=models.UniqueConstraint(condition=models.Q(('imported_as', ''), _negated=True), fields=('user', 'imported_as'), name='one_import_a_chat'),
        ),
        migrations.AddField(
            model_name='import',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='imports', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='passage',
            name='session',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='passages', to='chat.session'),
        ),
        migrations.AddField(
            model_name='passage',
            name='turn',
            field=models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='passage', to='chat.turn'),
        ),
        migrations.AddField(
            model_name='passage',
            name='user',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddConstraint(
            model_name='folder',
            constraint=models.UniqueConstraint(models.F('user'), django.db.models.functions.text.Lower('name'), name='one_folder_a_name'),
        ),
        migrations.AddIndex(
            model_name='passage',
            index=models.Index(fields=['user', '-at', '-id'], name='passages_by_time'),
        ),
        migrations.AddConstraint(
            model_name='passage',
            constraint=models.UniqueConstraint(condition=models.Q(('turn', None)), fields=('session',), name='one_title_a_session'),
        ),
        migrations.RunPython(make_index, drop_index),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
