"""Pages of files: upload them, see what they contain, map their columns."""

from starlette.responses import Response

from peerveil.core.errors import BadInput
from peerveil.data.readers.recognize import FORMATS
from peerveil.study.actions import KINDS
from peerveil.web.console import files
from peerveil.web.console.explore import MODULES
from peerveil.web.console.pages.request import PageRequest, operation


def overview(request: PageRequest) -> Response:
    """All files, and how to add another."""
    own, settings = files.listed(request.app, request.user), request.app.settings
    return request.page(
        "data.html",
        files=own,
        formats=FORMATS,
        reading=any(file.state == "reading" for file in own),
        paths=request.user.is_local or settings.data_folder is not None,
        data_folder=settings.data_folder,
        limit=settings.upload_limit,
    )


def upload(request: PageRequest) -> Response:
    """Add an uploaded file."""
    if request.upload is None or not request.upload.filename:
        raise BadInput("file", got="nothing", want="a file: choose one first")
    file = files.upload(request.app, request.user, request.upload.filename, request.upload.file)
    return request.redirect(f"/data/{file}", "added")


def file_page(request: PageRequest) -> Response:
    """What a file contains."""
    file = files.find(request.app, request.user, request.path("file"))
    guess = file.inspection.get("guess") or {}
    refused = file.inspection.get("problems", {})
    kind = request.query("kind") or file.kind or guess.get("kind") or next(iter(file.tables or refused), "reviews")
    if kind not in KINDS:
        kind = "reviews"
    return request.page(
        "file.html",
        file=file,
        formats=FORMATS,
        kinds=KINDS,
        kind=kind,
        columns=files.COLUMNS[kind],
        mapping=dict(file.columns) or (guess.get("columns", {}) if kind == guess.get("kind") else {}),
        modules={
            name: module
            for name, module in MODULES.items()
            if module.kind in file.tables or (module.kind == "labels" and files.POLL in file.tables)
        },
    )


def map_columns(request: PageRequest) -> Response:
    """Set what the file and its columns contain."""
    file, kind = request.path("file"), request.field("kind")
    columns = {column.name: request.field(f"column-{column.name}") for column in files.COLUMNS.get(kind, ())}
    files.map_columns(request.app, request.user, file, kind, columns)
    return request.redirect(f"/data/{file}", "mapped")


add_path = operation(files.add_path, "path", to="/data/{result}", done="added")
add_synthetic = operation(files.add_synthetic, to="/data", done="synthetic")
remove = operation(files.remove, "file", to="/data", done="removed")
