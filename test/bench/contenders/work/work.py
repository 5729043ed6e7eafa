"""
Jobs that agents do. Runs those that the arguments name, and prints how long each took in milliseconds, as JSON. A job
is a generator: what comes before its first yield prepares it, what comes after the second one cleans up; neither counts.
"""
import glob, json, os, shutil, sqlite3, subprocess, sys, tempfile, time

SOURCES = '/opt/work'


def run(*words, **options):
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    if done.returncode != 0:
        raise SystemExit(f'{" ".join(words[:3])} ended with {done.returncode}: {done.stdout[-600:]}')
    return done.stdout


def copy(name):
    return shutil.copytree(f'{SOURCES}/{name}', name)


def git_clone():
    yield
    run('git', 'clone', '--quiet', '--no-local', f'{SOURCES}/repository.git', 'clone')
    yield


def git_commit():
    copy('web')
    shutil.copytree('/usr/lib/python3.11', 'web/library', ignore=shutil.ignore_patterns('__pycache__'))
    git = ['git', '-c', 'user.name=bench', '-c', 'user.email=bench@bench.test', '-C', 'web']
    yield
    for words in (['init', '--quiet'], ['add', '.'], ['commit', '--quiet', '-m', 'all'], ['status']):
        run(*git, *words)
    yield


def npm_ci():
    copy('web')
    yield
    run('npm', 'ci', '--offline', '--cache', f'{SOURCES}/npm-cache', '--no-audit', '--no-fund', cwd='web')
    yield


def vite_build():
    for _ in npm_ci():
        pass
    yield
    run('node_modules/.bin/vite', 'build', cwd='web')
    yield


def pip_install():
    yield
    run('pip', 'install', '--quiet', '--no-index', '--find-links', f'{SOURCES}/wheels', '--target', 'site', 'pandas')
    run('python3', '-c', 'import pandas', env={**os.environ, 'PYTHONPATH': 'site'})
    yield


def pytest():
    copy('tests')
    yield
    printed = run('python3', '-m', 'pytest', '-q', 'tests', '--basetemp=temporary')
    assert '1000 passed' in printed, printed[-300:]
    yield


def go_build():
    yield
    run('go', 'build', '-o', 'vet', 'cmd/vet', env={**os.environ, 'GOCACHE': os.path.abspath('cache'), 'GOFLAGS': '-a'})
    yield


def jvm_build():
    copy('java')
    yield
    assert 'BUILD SUCCESSFUL' in run('ant', cwd='java')
    yield


def postgres(measure):
    programs = glob.glob('/usr/lib/postgresql/*/bin')[0]
    here = os.getcwd()
    program = lambda name, *words: run(f'{programs}/{name}', *words)

    def start():
        program('initdb', '-D', 'database', '-A', 'trust', '-U', 'postgres')
        listen = f"-c listen_addresses='' -k {here}"
        subprocess.run([f'{programs}/pg_ctl', '-D', 'database', '-w', '-l', 'log', '-o', listen, 'start'],
                       stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)

    bench = lambda *words: program('pgbench', '-h', here, '-U', 'postgres', *words, 'postgres')
    if measure == 'start':
        yield
        start()
        yield
    else:
        start()
        bench('-i', '-q', '-s', '5')
        yield
        bench('-c', '4', '-j', '2', '-t', '2000')
        yield
    program('pg_ctl', '-D', 'database', '-m', 'fast', 'stop')


def redis():
    socket = os.path.abspath('socket')
    server = subprocess.Popen(['redis-server', '--port', '6390', '--save', '', '--unixsocket', socket], stdout=subprocess.DEVNULL)
    while subprocess.run(['redis-cli', '-s', socket, 'ping'], capture_output=True).stdout != b'PONG\n':
        time.sleep(0.02)
    yield
    run('redis-benchmark', '-p', '6390', '-q', '-n', '20000', '-c', '20', '-t', 'set,get')
    yield
    server.kill()
    server.wait()


def sqlite():
    yield
    database = sqlite3.connect('database')
    database.execute('create table rows (id integer primary key, name text, value real)')
    for part in range(100):
        with database:
            database.executemany('insert into rows (name, value) values (?, ?)', ((f'name {part * n % 997}', n / 7) for n in range(2000)))
    database.execute('create index names on rows (name)')
    assert len(database.execute('select name, sum(value) from rows group by name').fetchall()) == 997
    database.close()
    yield


def ffmpeg():
    video = ['-f', 'lavfi', '-i', 'testsrc2=size=1280x720:rate=25:duration=20']
    yield
    run('ffmpeg', '-v', 'error', *video, '-c:v', 'libx264', '-preset', 'veryfast', 'video.mp4')
    yield


def chromium():
    yield
    run('node', f'{SOURCES}/browser/browse.js')
    yield


def small_files():
    yield
    for folder in range(100):
        os.makedirs(f'files/{folder}')
        for number in range(100):
            with open(f'files/{folder}/{number}', 'w') as file:
                file.write('a few bytes\n' * 20)
    for folder, _, names in os.walk('files'):
        for name in names:
            with open(os.path.join(folder, name)) as file:
                file.read()
    shutil.rmtree('files')
    yield


def jupyter():
    code = 'import nbformat, nbclient; nbclient.NotebookClient(nbformat.read("/opt/work/notebook.ipynb", 4)).execute()'
    yield
    run('python3', '-c', code)
    yield


JOBS = {
    'git clone, 50 MB': git_clone,
    'git add and commit': git_commit,
    '10,000 small files': small_files,
    'npm ci': npm_ci,
    'vite build': vite_build,
    'pip install pandas': pip_install,
    'pytest, 1,000 tests': pytest,
    'go build': go_build,
    'JVM build and tests': jvm_build,
    'PostgreSQL, initdb and start': lambda: postgres('start'),
    'PostgreSQL, pgbench': lambda: postgres('bench'),
    'Redis, redis-benchmark': redis,
    'SQLite': sqlite,
    'ffmpeg': ffmpeg,
    'Chromium, Playwright': chromium,
    'Jupyter notebook': jupyter,
}

took = {}
for name in sys.argv[1:] or JOBS:
    folder = tempfile.mkdtemp(dir=os.path.expanduser('~'))
    os.chdir(folder)
    try:
        job = JOBS[name]()
        next(job)
        start = time.perf_counter()
        next(job)
        took[name] = (time.perf_counter() - start) * 1000
        next(job, None)
    finally:
        os.chdir('/')
        shutil.rmtree(folder, ignore_errors=True)
print(json.dumps(took))
