"""Random numbers: by a key, or by the random state of the calling thread."""

from keel import _core as _c

globals().update({k: v for k, v in vars(_c._random).items() if not k.startswith("_")})


class _RandomState:
    def __len__(self):
        return 1

    def __getitem__(self, index):
        return [_c._random_show_state()][index]

    def __setitem__(self, index, value):
        if index not in (0, -1):
            raise IndexError("the random state has one array")
        _c._random_set_state(value)

    def __iter__(self):
        return iter([_c._random_show_state()])


state = _RandomState()
