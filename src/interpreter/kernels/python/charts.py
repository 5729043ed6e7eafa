"""The data behind a matplotlib figure, as the clients' chart types have it."""
import math
import re

from matplotlib import dates
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch, Rectangle, Wedge
from matplotlib.text import Text

# What a chart is drawn of at most, so that a figure of millions of points stays a picture.
MOST_POINTS = 100_000


def chart_of(figure):
    charts = [axes_chart(axes) for axes in figure.axes]
    charts = [chart for chart in charts if chart is not None]
    if not charts:
        return {}
    if len(figure.axes) == 1:
        return charts[0]
    title = figure.get_suptitle() if hasattr(figure, 'get_suptitle') else ''
    return {'type': 'superchart', 'title': title or None, 'elements': charts}


def axes_chart(axes):
    drawn = [one for one in axes._children if not isinstance(one, Text)]
    if not drawn:
        return None
    only = lambda items, *kinds: bool(items) and all(isinstance(one, kinds) for one in items)
    has = lambda kind: any(isinstance(one, kind) for one in drawn)
    without_grid = [one for one in drawn if not is_grid_line(one)]
    if only(drawn, Line2D):
        return line_chart(axes)
    if has(PathPatch) and only(drawn, PathPatch, Line2D):
        return box_chart(axes, drawn)
    if only(without_grid, PathCollection):
        return scatter_chart(axes, without_grid)
    if only(without_grid, Wedge):
        return pie_chart(axes, without_grid)
    if only(without_grid, Rectangle):
        return bar_chart(axes)
    return {'type': 'unknown', 'title': title_of(axes), 'elements': []}


def is_grid_line(one):
    if not isinstance(one, Line2D):
        return False
    xs, ys = list(one.get_xdata()), list(one.get_ydata())
    return len(xs) == 2 and len(ys) == 2 and (xs[0] == xs[1] or ys[0] == ys[1])


def title_of(axes):
    return axes.get_title() or None


def unit_of(label):
    found = re.search(r'\s\(([^()]*)\)|\[([^\[\]]*)\]', label or '')
    return (found.group(1) or found.group(2)) if found else None


def labels_of(axes):
    x, y = axes.get_xlabel() or None, axes.get_ylabel() or None
    return {'x_label': x, 'y_label': y, 'x_unit': unit_of(x), 'y_unit': unit_of(y)}


def turned(labels):
    return {
        **{'x_label': labels['y_label'], 'y_label': labels['x_label']},
        **{'x_unit': labels['y_unit'], 'y_unit': labels['x_unit']},
    }


def is_date_axis(axis):
    return isinstance(axis.get_converter() if hasattr(axis, 'get_converter') else axis.converter, DATE_CONVERTERS)


DATE_CONVERTERS = tuple(
    getattr(dates, name) for name in ('DateConverter', 'ConciseDateConverter', '_SwitchableDateConverter') if hasattr(dates, name)
)


def scale_of(axis, ticks, labels):
    if is_date_axis(axis):
        return 'datetime'
    if axis.get_scale() != 'linear':
        return axis.get_scale()
    numbers = [str(number) for number in range(len(ticks))]
    counts_up = [float(tick) for tick in ticks] == [float(number) for number in range(len(ticks))]
    return 'categorical' if counts_up and ticks and labels != numbers else 'linear'


def ticks_of(axes, name):
    axis = getattr(axes, f'{name}axis')
    places = [float(place) for place in axis.get_ticklocs()]
    labels = [text.get_text() for text in axis.get_ticklabels()]
    shown = [dates.num2date(place).isoformat() for place in places] if is_date_axis(axis) else places
    return {
        f'{name}_ticks': shown,
        f'{name}_tick_labels': labels,
        f'{name}_scale': scale_of(axis, places, labels),
    }


def point_chart(axes, kind, elements):
    # Tick labels are only known once the figure is drawn.
    axes.figure.canvas.draw()
    places = {**ticks_of(axes, 'x'), **ticks_of(axes, 'y')}
    return {'type': kind, 'title': title_of(axes), **labels_of(axes), **places, 'elements': elements}


def line_chart(axes):
    lines = [line for line in axes.get_lines() if not is_grid_line(line)]
    elements = []
    for number, line in enumerate(lines):
        label = str(line.get_label())
        points = list(zip(values(axes.xaxis, line.get_xdata()), values(axes.yaxis, line.get_ydata())))
        name = f'Line {number}' if label.startswith('_child') else label
        elements.append({'label': name, 'points': points[:MOST_POINTS]})
    return point_chart(axes, 'line', elements) if elements else None


def scatter_chart(axes, collections):
    elements = []
    for one in collections:
        offsets = one.get_offsets()
        points = list(zip(values(axes.xaxis, offsets[:, 0]), values(axes.yaxis, offsets[:, 1])))
        label = str(one.get_label())
        elements.append({'label': None if label.startswith('_child') else label, 'points': points[:MOST_POINTS]})
    return point_chart(axes, 'scatter', elements)


def values(axis, data):
    """Times as ISO text, names as they are, everything else as numbers; what is none is null."""
    return [value_of(axis, one) for one in list(data)[:MOST_POINTS]]


def value_of(axis, one):
    if isinstance(one, str):
        return one
    if hasattr(one, 'isoformat'):
        return one.isoformat()
    if type(one).__name__ == 'datetime64':
        return one.astype('datetime64[ms]').item().isoformat()
    number = float(one)
    if is_date_axis(axis):
        return dates.num2date(number).isoformat()
    return number if math.isfinite(number) else None


def bar_chart(axes):
    axes.figure.canvas.draw()
    containers = [one for one in axes.containers if isinstance(one, BarContainer)]
    bars = [bar for container in containers for bar in container]
    if not bars:
        return None
    heights = [bar.get_height() for bar in bars]
    # A single bar has one height too, and stands unless it was drawn as lying.
    lying = len(set(heights)) == 1 and getattr(containers[0], 'orientation', None) != 'vertical'
    axis = axes.yaxis if lying else axes.xaxis
    names = dict(zip((round(float(place), 6) for place in axis.get_ticklocs()), axis.get_ticklabels()))
    elements = []
    for number, container in enumerate(containers):
        label = str(container.get_label())
        group = f'Group {number}' if label.startswith('_') else label
        for index, bar in enumerate(container):
            middle = bar.get_y() + bar.get_height() / 2 if lying else bar.get_x() + bar.get_width() / 2
            text = names.get(round(float(middle), 6))
            fallback = list(names.values())[index].get_text() if index < len(names) else str(index)
            value = bar.get_width() if lying else bar.get_height()
            elements.append({'label': text.get_text() if text else fallback, 'group': group, 'value': float(value)})
    labels = turned(labels_of(axes)) if lying else labels_of(axes)
    return {'type': 'bar', 'title': title_of(axes), **labels, 'elements': elements[:MOST_POINTS]}


def pie_chart(axes, wedges):
    elements = []
    for wedge in wedges:
        label = str(wedge.get_label())
        angle = abs(wedge.theta2 - wedge.theta1)
        name = '' if label.startswith('_') else label
        elements.append({'label': name, 'angle': rounded(angle), 'radius': rounded(wedge.r)})
    return {'type': 'pie', 'title': title_of(axes), 'elements': elements}


def box_chart(axes, drawn):
    axes.figure.canvas.draw()
    boxes = [one for one in drawn if isinstance(one, PathPatch)]
    lines = [one for one in drawn if isinstance(one, Line2D)]
    corners = [box.get_path().vertices for box in boxes]
    lying = is_lying(boxes, lines)
    along, across = (0, 1) if lying else (1, 0)
    axis = axes.yaxis if lying else axes.xaxis
    names = [text.get_text() for text in axis.get_ticklabels()]
    elements = []
    for index, points in enumerate(corners):
        low, high = points[:4, along].min(), points[:4, along].max()
        left, right = points[:4, across].min(), points[:4, across].max()
        own = [line for line in lines if within(line, across, left, right)]
        elements.append(box_element(names[index] if index < len(names) else str(index), low, high, own, along, right - left))
    labels = turned(labels_of(axes)) if lying else labels_of(axes)
    return {'type': 'box_and_whisker', 'title': title_of(axes), **labels, 'elements': elements}


def is_lying(boxes, lines):
    """The line of a median goes across its box: upright where the box lies."""
    for line in lines:
        xs, ys = line.get_xdata(), line.get_ydata()
        if len(xs) != 2 or len(ys) != 2:
            continue
        for box in boxes:
            points = box.get_path().vertices[:4]
            width = (points[:, 0].min(), points[:, 0].max())
            height = (points[:, 1].min(), points[:, 1].max())
            if ys[0] == ys[1] and (min(xs), max(xs)) == width and height[0] <= ys[0] <= height[1]:
                return False
            if xs[0] == xs[1] and (min(ys), max(ys)) == height and width[0] <= xs[0] <= width[1]:
                return True
    return False


def data_of(line, along):
    return [float(one) for one in (line.get_xdata(), line.get_ydata())[along]]


def within(line, across, left, right):
    places = data_of(line, across)
    return bool(places) and left <= sum(places) / len(places) <= right


def box_element(label, low, high, lines, along, width):
    reach, outliers, median = [low, high], [], None
    for line in lines:
        places = data_of(line, along)
        if line.get_linestyle() in ('None', '', ' ') or (line.get_marker() not in ('None', '', ' ', None) and len(places) != 2):
            outliers += places
        elif len(places) == 2 and places[0] != places[1]:
            reach += places
        elif places and low <= places[0] <= high and spans(line, along, width):
            median = places[0]
    return {
        'label': label,
        'min': rounded(min(reach)),
        'first_quartile': rounded(low),
        'median': rounded(median if median is not None else (low + high) / 2),
        'third_quartile': rounded(high),
        'max': rounded(max(reach)),
        'outliers': [rounded(one) for one in outliers],
    }


def spans(line, along, width):
    """Whether it is as wide as the box: the ends of the whiskers are shorter."""
    other = data_of(line, 1 - along)
    return len(other) == 2 and math.isclose(abs(other[1] - other[0]), width)


def rounded(number):
    number = float(number)
    return float(f'{number:.8g}') if math.isfinite(number) else None
