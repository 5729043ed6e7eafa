"""Jobs that a user of a sandbox waits for. Prints how long each took, in milliseconds, as JSON."""
import json, os, shutil, subprocess, sys, tempfile, time

LIBRARY = os.path.dirname(os.__file__)
PARTS = ['asyncio', 'email', 'encodings', 'http', 'json', 'unittest', 'xml']
QUIET = {'stdout': subprocess.DEVNULL, 'stderr': subprocess.DEVNULL, 'check': True}
scale = float(sys.argv[1])
folder = tempfile.mkdtemp(dir=os.path.expanduser('~'))
os.chdir(folder)


def times(count):
    return range(max(1, int(count * scale)))


def system_calls():
    for _ in times(200_000):
        os.getppid()


def stats():
    for _ in times(100_000):
        os.stat('/usr/bin/env')


def small_files():
    os.mkdir('small')
    for number in times(5_000):
        with open(f'small/{number}', 'w') as file:
            file.write('a few bytes\n')


def copy_tree():
    for part in PARTS:
        shutil.copytree(f'{LIBRARY}/{part}', f'tree/{part}')


def git_commit():
    git = ['git', '-c', 'user.name=bench', '-c', 'user.email=bench@bench.test', '-C', 'tree']
    for words in (['init'], ['add', '.'], ['commit', '-m', 'all']):
        subprocess.run(git + words, **QUIET)


def fork_and_exec():
    for _ in times(200):
        os.waitpid(os.posix_spawn('/bin/true', ['true'], os.environ), 0)


def archive():
    subprocess.run(['tar', '-czf', 'tree.tar.gz', 'tree'], **QUIET)


def python_import():
    modules = 'asyncio, decimal, email.mime.text, http.client, sqlite3, unittest, xml.dom.minidom'
    subprocess.run([sys.executable, '-c', f'import {modules}'], **QUIET)


def find():
    subprocess.run(['find', '/usr', '-xdev', '-newer', '/etc/passwd'], **QUIET)


def python_loop():
    total = 0
    for number in times(5_000_000):
        total += number


JOBS = {
    '200,000 × getppid': system_calls,
    '100,000 × stat': stats,
    '5,000 small files': small_files,
    'git init, add and commit': git_commit,
    '200 × fork and exec': fork_and_exec,
    'tar and gzip': archive,
    'a Python that imports': python_import,
    'find /usr': find,
    'a Python loop': python_loop,
}

took = {}
try:
    copy_tree()
    for name, job in JOBS.items():
        start = time.perf_counter()
        job()
        took[name] = (time.perf_counter() - start) * 1000
finally:
    os.chdir('/')
    shutil.rmtree(folder)
print(json.dumps(took))
