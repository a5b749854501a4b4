"""Functions whose names exist and that are not built yet."""

NOT_BUILT = "Not built yet: a call raises NotImplementedError."


def later(module, names):
    """A dict of functions of these names, each of which raises NotImplementedError."""

    def make(name):
        def function(*args, **kwargs):
            raise NotImplementedError(f"keel.core.{module}.{name}() is not built yet")

        function.__name__ = function.__qualname__ = name
        function.__module__ = f"keel.core.{module}"
        function.__doc__ = NOT_BUILT  # and what it will do: _document() adds the text of the stubs
        return function

    return {name: make(name) for name in names.split()}
