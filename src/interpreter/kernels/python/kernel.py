"""Runs Python cells for the interpreter's server, in IPython.

Requests come as JSON lines on descriptor 3, events go as JSON lines to descriptor 4. What cells print is whatever
this process and its children write to descriptors 1 and 2. Each cell ends with the marker of its request on both,
so that the server knows when it has read all of it.
"""
import io
import json
import os
import signal
import sys
import warnings

for descriptor in (3, 4):
    os.set_inheritable(descriptor, False)

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

import formatters

requests = os.fdopen(3, 'r', encoding='utf-8')
events = os.fdopen(4, 'wb')
sys.stdout = io.TextIOWrapper(io.FileIO(1, 'w', closefd=False), 'utf-8', 'backslashreplace', line_buffering=True)
sys.stderr = io.TextIOWrapper(io.FileIO(2, 'w', closefd=False), 'utf-8', 'backslashreplace', line_buffering=True)
sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr
kernel_pid = os.getpid()


def send(event):
    # A process that user code forked off must not speak for the kernel.
    if os.getpid() == kernel_pid:
        events.write(json.dumps(event, default=str).encode() + b'\n')
        events.flush()


def send_result(bundle, is_main):
    data = formatters.portable(bundle)
    if data:
        send({'type': 'result', 'main': is_main, 'data': data})


class ResultHook(DisplayHook):
    """Sends the value of a cell's last expression."""

    def start_displayhook(self):
        pass

    def write_output_prompt(self):
        pass

    def write_format_data(self, format_dict, md_dict=None):
        sys.stdout.flush()
        send_result(format_dict, True)

    def finish_displayhook(self):
        pass


class ResultPublisher(DisplayPublisher):
    """Sends what cells display."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_):
        sys.stdout.flush()
        send_result(data, False)

    def clear_output(self, wait=False):
        pass


class Shell(InteractiveShell):
    displayhook_class = Type(ResultHook)
    display_pub_class = Type(ResultPublisher)
    # Commands of a cell write where the cell does, and not through a terminal.
    system = InteractiveShell.system_raw

    def _showtraceback(self, etype, evalue, stb):
        send({
            'type': 'error',
            'name': getattr(etype, '__name__', str(etype)),
            'value': formatters.safe_text(evalue),
            'traceback': '\n'.join(stb),
        })

    def enable_gui(self, gui=None):
        pass



def make_shell():
    config = Config()
    config.InteractiveShell.colors = 'nocolor'
    config.InteractiveShell.xmode = 'Context'
    config.HistoryManager.enabled = False
    config.HistoryManager.hist_file = ':memory:'
    config.PlainTextFormatter.max_seq_length = 0
    shell = Shell.instance(config=config)
    shell.user_ns['exit'] = shell.user_ns['quit'] = end_cell
    warnings.filterwarnings('ignore', message='To exit: use')
    formatters.register(shell)
    return shell


def end_cell(*_):
    """`exit()` ends the cell and leaves what the context knows."""
    raise SystemExit


def set_variables(changes):
    for name, value in (changes or {}).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


class Interrupts:
    """Turns the signal into KeyboardInterrupt, but only while a cell runs."""

    def __init__(self):
        self.allowed = False
        signal.signal(signal.SIGINT, self.on_signal)

    def on_signal(self, number, frame):
        if self.allowed:
            raise KeyboardInterrupt


def run_cell(shell, interrupts, request):
    set_variables(request.get('set'))
    send({'type': 'started', 'count': shell.execution_count})
    try:
        interrupts.allowed = True
        shell.run_cell(request['code'], store_history=True, silent=False)
    except KeyboardInterrupt:
        send({'type': 'error', 'name': 'KeyboardInterrupt', 'value': '', 'traceback': 'KeyboardInterrupt'})
    finally:
        interrupts.allowed = False
    set_variables(request.get('restore'))
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        try:
            stream.flush()
        except Exception:
            pass
    for descriptor in (1, 2):
        try:
            os.write(descriptor, request['marker'].encode())
        except OSError:
            pass
    send({'type': 'done'})


def change_folder(path):
    try:
        os.chdir(path)
    except OSError as error:
        return send({'type': 'failed', 'reason': str(error)})
    send({'type': 'done'})


def main():
    interrupts = Interrupts()
    shell = make_shell()
    send({'type': 'ready'})
    for line in requests:
        request = json.loads(line)
        if request['type'] == 'execute':
            run_cell(shell, interrupts, request)
        elif request['type'] == 'chdir':
            change_folder(request['path'])


main()
