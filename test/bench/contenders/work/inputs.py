"""Writes the projects that the jobs of the benchmark `work` build and test into the folder that the argument names."""
import json, os, sys


def write(path, text):
    path = os.path.join(sys.argv[1], path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'w') as file:
        file.write(text)


def python_tests():
    """1,000 tests in 50 files: plain ones, ones with parameters, and ones that write a file."""
    for number in range(50):
        write(f'tests/part_{number}/test_{number}.py', f'''
import json
import pytest

@pytest.fixture
def numbers():
    return list(range({number}, {number} + 100))

@pytest.mark.parametrize('step', range(1, 13))
def test_slices(numbers, step):
    assert sum(numbers[::step]) == sum(range({number}, {number} + 100, step))

@pytest.mark.parametrize('size', range(4))
def test_files(tmp_path, size):
    path = tmp_path / 'numbers.json'
    path.write_text(json.dumps(list(range(size * 100))))
    assert len(json.loads(path.read_text())) == size * 100

@pytest.mark.parametrize('text', ['a', 'b', 'c', 'd'])
def test_texts(text):
    assert text.upper().lower() == text
''')


def web():
    """A page of React with 300 components, for Vite."""
    packages = {'react': '19.3.1', 'react-dom': '19.3.1'}
    tools = {'vite': '7.3.8', '@vitejs/plugin-react': '5.2.0', 'eslint': '10.15.0', 'jest': '29.7.0'}
    project = {'name': 'web', 'private': True, 'type': 'module', 'dependencies': packages, 'devDependencies': tools}
    # A version whose native parts a mirror has for every system: `npm ci` rejects a lock file that lacks one.
    project['overrides'] = {'rollup': '4.65.0'}
    write('web/package.json', json.dumps(project))
    write('web/vite.config.js', "import react from '@vitejs/plugin-react'\nexport default { plugins: [react()] }\n")
    write('web/index.html', '<div id="root"></div><script type="module" src="/src/main.jsx"></script>')
    names = [f'Part{number}' for number in range(300)]
    for number, name in enumerate(names):
        write(f'web/src/parts/{name}.jsx', f'''
import {{ useMemo, useState }} from 'react'
import './{name}.css'

export function {name}({{ title }}) {{
  const [count, setCount] = useState({number})
  const squares = useMemo(() => Array.from({{ length: count }}, (_, index) => index * index), [count])
  return (
    <section className="part-{number}">
      <h2>{{title}} {number}</h2>
      <button onClick={{() => setCount(count + 1)}}>more</button>
      <ul>{{squares.map((square) => <li key={{square}}>{{square}}</li>)}}</ul>
    </section>
  )
}}
''')
        write(f'web/src/parts/{name}.css', f'.part-{number} {{ margin: {number}px; color: #{number:06x} }}\n')
    imports = ''.join(f"import {{ {name} }} from './parts/{name}.jsx'\n" for name in names)
    parts = ''.join(f'<{name} title="part" />' for name in names)
    write('web/src/main.jsx', f'''import {{ createRoot }} from 'react-dom/client'
{imports}createRoot(document.getElementById('root')).render(<main>{parts}</main>)
''')


def java():
    """400 classes and 100 classes of tests, for Ant with JUnit."""
    for number in range(400):
        write(f'java/src/parts/Part{number}.java', f'''package parts;
import java.util.*;
import java.util.stream.*;
public class Part{number} implements Comparable<Part{number}> {{
    private final Map<String, List<Integer>> values = new TreeMap<>();
    public void add(String name, int value) {{ values.computeIfAbsent(name, key -> new ArrayList<>()).add(value); }}
    public int total() {{ return values.values().stream().flatMap(List::stream).mapToInt(Integer::intValue).sum(); }}
    public String text() {{
        return values.entrySet().stream().map(entry -> entry.getKey() + "=" + entry.getValue()).collect(Collectors.joining(","));
    }}
    @Override public int compareTo(Part{number} other) {{ return Integer.compare(total() + {number}, other.total()); }}
}}
''')
    for number in range(100):
        write(f'java/test/parts/Part{number}Test.java', f'''package parts;
import static org.junit.Assert.*;
public class Part{number}Test {{
    @org.junit.Test public void adds() {{
        Part{number} part = new Part{number}();
        for (int value = 0; value <= 100; value++) part.add("value" + value % 7, value);
        assertEquals(5050, part.total());
        assertTrue(part.text().startsWith("value0="));
    }}
}}
''')
    write('java/build.xml', '''<project default="test">
  <property name="junit" value="/usr/share/java/junit4.jar:/usr/share/java/hamcrest-core.jar"/>
  <target name="test">
    <mkdir dir="classes"/>
    <javac srcdir="src:test" destdir="classes" classpath="${junit}" includeantruntime="false"/>
    <jar destfile="parts.jar" basedir="classes"/>
    <junit haltonfailure="true" fork="true" forkmode="once">
      <classpath path="parts.jar:${junit}"/>
      <batchtest><fileset dir="test" includes="**/*Test.java"/></batchtest>
    </junit>
  </target>
</project>
''')


def notebook():
    """A first cell that imports, and twenty that compute."""
    sources = ['import collections, json, math, statistics, sqlite3, urllib.request']
    sources += [f'statistics.mean(math.sqrt(n) for n in range({number} * 1000, ({number} + 5) * 1000))' for number in range(20)]
    cells = [
        {'cell_type': 'code', 'id': f'cell-{number}', 'metadata': {}, 'outputs': [], 'execution_count': None, 'source': source}
        for number, source in enumerate(sources)
    ]
    spec = {'name': 'python3', 'display_name': 'Python 3', 'language': 'python'}
    write('notebook.ipynb', json.dumps({'nbformat': 4, 'nbformat_minor': 5, 'metadata': {'kernelspec': spec}, 'cells': cells}))


def browser():
    """A page that builds a table, and a program that opens it in Chromium, uses it and takes pictures."""
    write('browser/package.json', json.dumps({'name': 'browser', 'private': True, 'type': 'module'}))
    write('browser/page.html', '''<!doctype html><button>add</button><table></table><script>
      document.querySelector('button').onclick = () => {
        const table = document.querySelector('table')
        for (let line = 0; line < 200; line++) {
          const row = table.insertRow()
          for (let column = 0; column < 10; column++) row.insertCell().textContent = line * column
        }
      }
    </script>''')
    write('browser/browse.js', '''import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { chromium } from 'playwright-core'

const page = readFileSync('/opt/work/browser/page.html')
const server = createServer((request, response) => response.setHeader('Content-Type', 'text/html').end(page))
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const args = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu']
const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args })
for (let visit = 0; visit < 10; visit++) {
  const tab = await browser.newPage()
  await tab.goto(`http://127.0.0.1:${server.address().port}/`)
  await tab.click('button')
  assert.equal(await tab.locator('tr').count(), 200)
  assert.ok((await tab.screenshot()).length > 1000)
  await tab.close()
}
await browser.close()
server.close()
''')


for make in (python_tests, web, java, notebook, browser):
    make()
