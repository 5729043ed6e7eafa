"""What a value looks like as a result: by MIME type, besides what IPython knows by itself.

Nothing here imports pandas, matplotlib, numpy or Pillow: their classes are known once a cell has imported them.
"""
import base64
import importlib.abc
import importlib.util
import json
import math
import sys

from IPython.core.formatters import BaseFormatter, DisplayFormatter
from traitlets import ObjectName, Unicode

# A result is one line of a stream, and the client holds it whole.
LARGEST_TEXT = 48 * 1024 * 1024


class DataFormatter(BaseFormatter):
    format_type = Unicode('e2b/data')
    print_method = ObjectName('_repr_e2b_data_')
    _return_type = (dict, str)


class ChartFormatter(BaseFormatter):
    format_type = Unicode('e2b/chart')
    print_method = ObjectName('_repr_e2b_chart_')
    _return_type = (dict, str)

    def lookup_by_type(self, kind):
        # Not by registration: the inline backend takes away whatever is registered for figures.
        if any((one.__module__, one.__name__) == ('matplotlib.figure', 'Figure') for one in kind.__mro__):
            return figure_chart
        return super().lookup_by_type(kind)

    def lookup(self, value):
        return self.lookup_by_type(type(value))


def register(shell):
    formatter: DisplayFormatter = shell.display_formatter
    for kind in (DataFormatter, ChartFormatter):
        one = kind(parent=formatter)
        formatter.formatters[one.format_type] = one
    formatter.active_types = list(formatter.formatters)
    formatter.formatters['e2b/data'].for_type_by_name('pandas.core.frame', 'DataFrame', frame_data)
    formatter.formatters['e2b/data'].for_type_by_name('pandas', 'DataFrame', frame_data)
    as_json = formatter.formatters['application/json']
    as_json._return_type = (list, dict)
    as_json.for_type(list, json_value)
    as_json.for_type(dict, json_value)
    sys.meta_path.insert(0, ImagePatch(shell))


def frame_data(frame):
    """Column to list of values."""
    names = [str(name) for name in frame.columns]
    return {name: [plain(value) for value in frame.iloc[:, at].tolist()] for at, name in enumerate(names)}


def figure_chart(figure):
    import charts

    try:
        return charts.chart_of(figure)
    except Exception:
        return {}


def json_value(value):
    """The value as JSON has it, or None where there is no such thing."""
    try:
        text = json.dumps(plain(value), allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return None
    return json.loads(text) if len(text) <= LARGEST_TEXT else None


def plain(value, depth=0):
    """Numbers and times of any library as JSON's own; keys as text. Raises TypeError where that is impossible."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > 100:
        raise TypeError('too deep')
    if isinstance(value, dict):
        return {key if isinstance(key, str) else str(plain(key)): plain(one, depth + 1) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, depth + 1) for one in value]
    if hasattr(value, 'isoformat'):
        # A missing time calls itself NaT and is not equal to itself.
        return value.isoformat() if value == value else None
    for method in ('tolist', 'item'):
        if hasattr(value, method) and type(value).__module__.split('.')[0] == 'numpy':
            return plain(getattr(value, method)(), depth + 1)
    if type(value).__name__ in ('NAType', 'NaTType'):
        return None
    if type(value).__name__ in ('Decimal', 'UUID', 'Interval', 'Period', 'Timedelta', 'timedelta'):
        return str(value)
    raise TypeError(f'{type(value).__name__} has no form in JSON')


def portable(bundle):
    """A bundle that JSON can carry: bytes as base64, and nothing that is larger than a client can take."""
    found = {}
    for kind, value in bundle.items():
        if isinstance(value, (bytes, bytearray)):
            value = base64.b64encode(value).decode()
        if value is None or (isinstance(value, str) and len(value) > LARGEST_TEXT):
            continue
        found[kind] = value
    return found


def safe_text(value):
    try:
        return str(value)
    except Exception as error:
        return f'<{type(error).__name__} while it was shown>'


class ImagePatch(importlib.abc.MetaPathFinder):
    """Once Pillow is imported, images that are shown, or saved under a path, are displayed."""

    def __init__(self, shell):
        self.shell = shell

    def find_spec(self, name, path, target=None):
        if name != 'PIL.Image':
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec and spec.loader:
            load = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (load(module), self.patch(module))
        return spec

    def patch(self, module):
        from IPython.display import display

        save = module.Image.save

        def save_and_display(image, fp, *args, **kwargs):
            save(image, fp, *args, **kwargs)
            if isinstance(fp, str) or hasattr(fp, '__fspath__'):
                display(image)

        module.Image.save = save_and_display
        module.Image.show = lambda image, *_, **__: display(image)
