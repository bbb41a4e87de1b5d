from pathlib import Path
from typing import Any, BinaryIO

from pyarrow import NativeFile, Table

def __getattr__(name: str) -> Any: ...
def read_csv(input_file: str | Path | NativeFile) -> Table: ...

class WriteOptions:
    def __init__(self, *, include_header: bool = ..., quoting_style: str = ...) -> None: ...

def write_csv(
    data: Table,
    output_file: str | Path | NativeFile | BinaryIO,
    write_options: WriteOptions | None = ...,
) -> None: ...
