"""As much of protobuf's wire format as models of one node need; the importer (import/onnx) reads all others."""

import collections

from ._errors import InvalidProtobuf

_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


def _varint(value: int) -> bytes:
    if value < 0:
        value += 1 << 64
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def message(*fields: tuple) -> bytes:
    """Fields (number, value) in this order: a number, text, bytes, or a list of any of them. None is left out."""
    parts = []
    for number, value in fields:
        for one in value if isinstance(value, list) else [value]:
            if one is None:
                continue
            if isinstance(one, int):
                parts += [_varint(number << 3 | _VARINT), _varint(one)]
                continue
            data = one.encode() if isinstance(one, str) else one
            parts += [_varint(number << 3 | _BYTES), _varint(len(data)), data]
    return b"".join(parts)


def fields(data) -> dict:
    """A message's fields by their numbers, each a list: numbers, or views of bytes. Errors: InvalidProtobuf."""
    view, found, place = memoryview(data), collections.defaultdict(list), 0
    try:
        while place < len(view):
            key, place = _read_varint(view, place)
            kind = key & 7
            if kind == _VARINT:
                value, place = _read_varint(view, place)
            elif kind == _BYTES:
                size, place = _read_varint(view, place)
                value = view[place : place + size]
                place += size
                if len(value) != size:
                    raise IndexError
            elif kind in (_EIGHT, _FOUR):
                size = 8 if kind == _EIGHT else 4
                value = view[place : place + size]
                place += size
            else:
                raise IndexError
            found[key >> 3].append(value)
    except IndexError:
        raise InvalidProtobuf(f"the model's bytes are no protobuf message at {place}") from None
    return found


def _read_varint(view, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = view[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > 63:
            raise IndexError


def numbers(values: list) -> list[int]:
    """A field of numbers, each for itself or packed."""
    found = []
    for value in values:
        if isinstance(value, int):
            found.append(value)
            continue
        place = 0
        while place < len(value):
            number, place = _read_varint(value, place)
            found.append(number)
    return found


def text(values: list, default: str = "") -> str:
    """The last of a field that has text; protobuf's rule for those that stand once."""
    return bytes(values[-1]).decode(errors="replace") if values else default
