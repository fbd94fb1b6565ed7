"""Access control lists of folders: one account may pass, and no other user gains anything.

Linux keeps a list as an extended attribute: a version, then entries of tag, permissions and id, ordered by tag.
"""

import errno
import os
import stat
import struct
from pathlib import Path
from typing import Final

_ATTRIBUTE: Final = "system.posix_acl_access"
_VERSION: Final = struct.pack("<I", 2)
_ENTRY: Final = struct.Struct("<HHI")
_OWNER, _USER, _OWNING_GROUP, _MASK, _OTHERS = 0x01, 0x02, 0x04, 0x10, 0x20
_NO_ID: Final = 0xFFFFFFFF
_UNSUPPORTED: Final = (errno.ENOTSUP, errno.ENOSYS)

_Entries = dict[tuple[int, int], int]
"""Tag and id → permissions."""


def let_pass_if_supported(folder: Path, uid: int) -> bool:
    """Let a user pass a folder, not list it; return False where the file system keeps no lists."""
    if not hasattr(os, "setxattr"):
        return False
    try:
        entries = _read(folder)
        entries[_USER, uid] = entries.get((_USER, uid), 0) | stat.S_IXOTH
        # The mask limits all entries but those of the owner and of others.
        mask = entries.get((_MASK, _NO_ID), entries[_OWNING_GROUP, _NO_ID])
        entries[_MASK, _NO_ID] = mask | stat.S_IXOTH
        rows = (_ENTRY.pack(tag, bits, id) for (tag, id), bits in sorted(entries.items()))
        os.setxattr(folder, _ATTRIBUTE, _VERSION + b"".join(rows))
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            return False
        raise
    return True


def _read(folder: Path) -> _Entries:
    """Return the list of a folder; one that has none is described by its mode."""
    try:
        data = os.getxattr(folder, _ATTRIBUTE)
    except OSError as error:
        if error.errno != errno.ENODATA:
            raise
        mode = folder.stat().st_mode
        tags = ((_OWNER, mode >> 6), (_OWNING_GROUP, mode >> 3), (_OTHERS, mode))
        return {(tag, _NO_ID): bits & 7 for tag, bits in tags}
    return {(tag, id): bits for tag, bits, id in _ENTRY.iter_unpack(data[len(_VERSION) :])}
