"""A store of bounded size that drops what was not used for longest."""


class Recent:
    def __init__(self, size):
        self.size = size
        self.values = {}

    def get(self, name, default=None):
        if name not in self.values:
            return default
        self.values[name] = self.values.pop(name)
        return self.values[name]

    def put(self, name, value):
        self.values.pop(name, None)
        self.values[name] = value
        if len(self.values) > self.size:
            del self.values[next(iter(self.values))]
