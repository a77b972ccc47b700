"""Tar archives: creation, and extraction restricted to a folder."""

from __future__ import annotations

import lzma
import os
import shutil
import tarfile
import zlib

from ..error import TVMError

# Weights of compiled models are hardly compressible; a higher compression ratio indicates a decompression bomb.
_MOST_SHRINKING = 100


def tar(output: str, files) -> None:
    """Create the archive ``output`` of files, stored by base name; the suffix selects bz2 or gz compression.

    Parameters
    ----------
    output : str
        The output file.
    files : list of str
        The files.
    """
    names = [files] if isinstance(files, str) else list(files)
    mode = "w:bz2" if output.endswith(".bz2") else "w:gz" if output.endswith((".gz", ".tgz")) else "w"
    part = output + ".part"
    with tarfile.open(part, mode) as archive:
        for name in names:
            archive.add(name, arcname=os.path.basename(name), recursive=False)
    os.replace(part, output)


tar.output_format = "tar"


def untar(tar_file: str, directory: str) -> None:
    """Extract an archive; entries outside ``directory``, links, devices and decompression bombs are rejected.

    Parameters
    ----------
    tar_file : str
        The archive.
    directory : str
        The destination folder.

    Raises
    ------
    TVMError
        The file is not an archive, is damaged, or contains a dangerous entry.
    """
    try:
        with tarfile.open(tar_file) as archive:
            members = _checked(tar_file, archive, os.path.realpath(directory))
            for member in members:
                target = os.path.join(directory, member.name)
                if member.isdir():
                    os.makedirs(target, exist_ok=True)
                    continue
                os.makedirs(os.path.dirname(target) or ".", exist_ok=True)
                source = archive.extractfile(member)
                assert source is not None
                with source, open(target, "wb") as out:
                    shutil.copyfileobj(source, out)
    except (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise TVMError(f"{tar_file} is not a tar archive or is damaged: {error}") from error
    except (OSError, ValueError) as error:
        raise TVMError(f"cannot extract {tar_file}: {error}") from error


def _checked(tar_file: str, archive: tarfile.TarFile, root: str) -> list[tarfile.TarInfo]:
    """Check each entry before reading the next one, because skipping the data of a bomb would decompress it."""
    left = min(os.path.getsize(tar_file) * _MOST_SHRINKING + (1 << 20), shutil.disk_usage(root).free)
    members = []
    for member in archive:
        target = os.path.realpath(os.path.join(root, member.name))
        if member.name.startswith(("/", "\\")) or os.path.commonpath([root, target]) != root:
            raise TVMError(f"{tar_file}: entry '{member.name}' would be written outside the folder")
        if not (member.isfile() or member.isdir()):
            raise TVMError(f"{tar_file}: entry '{member.name}' is neither a file nor a folder")
        if member.issparse():
            raise TVMError(f"{tar_file}: entry '{member.name}' is a sparse file; make the archive without --sparse")
        left -= member.size
        if left < 0:
            what = f"entry '{member.name}' of {member.size} bytes"
            raise TVMError(f"{tar_file}: {what} does not fit the archive or the disk")
        members.append(member)
    return members


def normalize_file_list_by_unpacking_tars(temp, file_list) -> list[str]:
    """The files, with archives replaced by their contents; ``temp`` is a TempDirectory.

    Parameters
    ----------
    temp : TempDirectory
        The folder for extracted archives.
    file_list : list of str
        The files.

    Returns
    -------
    list[str]

    Raises
    ------
    FileNotFoundError
        A file does not exist.
    """
    out = []
    for i, path in enumerate(file_list):
        if not os.path.exists(path):
            raise FileNotFoundError(path)
        if path.endswith(".tar"):
            folder = temp.relpath(f"untar{i}")
            os.makedirs(folder)
            untar(path, folder)
            out.extend(os.path.join(folder, name) for name in sorted(os.listdir(folder)))
        else:
            out.append(path)
    return out
