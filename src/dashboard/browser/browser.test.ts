import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { stepsOf } from './build-steps.ts'
import { curvePath } from './curve.ts'
import { joinPath, sortEntries, textOf, trailOf } from './file-paths.ts'
import {
  ago,
  bytes,
  duration,
  mebibytes,
  permissions,
  plainText,
  quantile,
  sizeOf,
  waitingText,
} from './format.ts'
import { LogTail } from './log-tail.ts'
import { emptyTemplateForm, templateRequests } from './new-template.ts'
import { parseLines, parsePairs } from './pairs.ts'
import { parseListening, parseProcesses } from './proc-text.ts'
import { best, matches, rank } from './search.ts'
import { teamShares } from './team-shares.ts'
import { thinned } from './thin.ts'
import { timeRange } from './time-range.ts'
import { rowsInSight } from './virtual-rows.ts'
import { mountsOf } from './volume-mounts.ts'

describe('figures', () => {
  it('are written with the unit that fits', () => {
    assert.deepEqual([0, 0.5, 900, 1536, 10 * 1024 ** 3, Number.NaN].map(bytes), [
      '0 B',
      '0 B',
      '900 B',
      '1.5 KiB',
      '10.0 GiB',
      '0 B',
    ])
    assert.deepEqual([512, 1024, 1536].map(mebibytes), ['512 MiB', '1 GiB', '1.5 GiB'])
    assert.deepEqual([sizeOf(2, 1024), sizeOf(0, 0)], ['2 CPU, 1 GiB', '–'])
    assert.deepEqual([0, 59_000, 3_605_000, 90_000_000, -5].map(duration), ['0s', '59s', '1h', '1d 1h', '0s'])
    assert.equal(ago(1000, 3_700_000), '1h ago')
    assert.equal(permissions(0o755, 'directory'), 'drwxr-xr-x')
    assert.equal(quantile([1, 2, 3, 4], 0.5), 3)
    assert.equal(quantile([], 0.99), 0)
    assert.deepEqual(
      [waitingText(1, 0, 0), waitingText(0, 1, 0), waitingText(2, 3, 1), waitingText(0, 0, 0)],
      [
        '1 template',
        '1 paused sandbox',
        '2 templates, 3 paused sandboxes; 1 of them for this machine only',
        'The object store has everything',
      ],
    )
  })

  it('become a curve over the whole width, however few they are, with the newest at the right edge', () => {
    assert.deepEqual(curvePath([], 100, 72, 22), { line: '', area: '' })
    assert.equal(curvePath([500], 100, 72, 22).line, 'M0 1.5L72 1.5')
    assert.equal(curvePath([0, 100], 100, 72, 22).line, 'M0 20.5L72 1.5')
    const many = Array.from({ length: 100 }, () => 0)
    assert.match(curvePath([...many, 100], 100, 72, 22).line, /^M0 20\.5L.*L72 1\.5$/)
  })

  it('are thinned evenly, and the last one stays', () => {
    const values = Array.from({ length: 1000 }, (_, at) => at)
    assert.deepEqual(thinned(values, 3), [0, 500, 999])
    assert.equal(thinned(values, 2000), values)
  })
})

describe('the list', () => {
  it('draws only the visible rows and a few more, however many there are', () => {
    const { first, last, height } = rowsInSight(5000, 56, 56 * 2000, 800)
    assert.equal(height, 5000 * 56)
    assert.ok(first > 1980 && first < 2000 && last > 2014 && last < 2030)
    assert.deepEqual(rowsInSight(0, 56, 900, 800), { first: 0, last: 0, offset: 0, height: 0 })
    assert.equal(rowsInSight(3, 56, 9_999_999, 800).last, 3)
  })

  it('is searched by words, and by metadata as key=value', () => {
    const sandbox = {
      sandboxID: 'iabc',
      templateID: 't1',
      alias: 'base',
      metadata: { user: '42', Note: 'A b' },
    }
    for (const text of ['', 'iab', 'BASE', 'user=42', 'user=4 base', 'note=a'])
      assert.ok(matches(sandbox, text), text)
    for (const text of ['user=5', 'nothing', 'base paused', '42=user'])
      assert.ok(!matches(sandbox, text), text)
  })

  it('finds commands by letters in their order, whole words first', () => {
    assert.ok(rank('Templates', 'temp')! < rank('The empty plate', 'temp')!)
    assert.equal(rank('Secrets', 'xyz'), undefined)
  })

  it('finds sandboxes by their metadata, after texts that have it whole and before letters here and there', () => {
    const sandbox = { text: 'iabc', words: ['user=42', 'task=templates'] }
    const views = [{ text: 'Templates' }, { text: 'The empty plate' }]
    assert.deepEqual(
      best([...views, sandbox], 'templ', 9).map(({ one, word }) => [one.text, word]),
      [
        ['Templates', undefined],
        ['iabc', 'task=templates'],
        ['The empty plate', undefined],
      ],
    )
    assert.deepEqual(best([...views, sandbox], 'user=42', 9), [{ one: sandbox, word: 'user=42', score: 50 }])
    assert.deepEqual(best([sandbox], '', 9), [{ one: sandbox, score: 0 }])
  })
})

describe('the output of a sandbox', () => {
  it('is parsed as processes, and other lines are skipped', () => {
    const text = '    1 root 0.0 1024 77 /sbin/init\n<script>\n  42 user 12.5 20480 3 python3 -c "a  b"\n'
    assert.deepEqual(
      parseProcesses(text).map(({ pid, memoryBytes, command }) => [pid, memoryBytes, command]),
      [
        [1, 1024 ** 2, '/sbin/init'],
        [42, 20 * 1024 ** 2, 'python3 -c "a  b"'],
      ],
    )
  })

  it('shows neither the agent nor what tools run in the sandbox', () => {
    const rows = ['1 root 0 1 9 /.warren/init -- x', '7 user 0 1 9 tar -cf - .', '8 user 0 1 9 make']
    const text = `${rows.join('\n')}\n/proc/7/environ\n`
    assert.deepEqual(
      parseProcesses(text).map(({ command }) => command),
      ['make'],
    )
  })

  it('is parsed as listening ports, each once', () => {
    const text = [
      '  sl  local_address rem_address   st',
      '   0: 00000000:1F40 00000000:0000 0A 00000000:00000000',
      '   1: 00000000000000000000000000000000:1F40 0000:0000 0A 0',
      '   2: 0100007F:C000 0100007F:1F40 01 0',
    ].join('\n')
    assert.deepEqual(parseListening(text), [8000])
  })

  it('is bounded', () => {
    assert.equal(parseProcesses('1 a 0 1 1 x\n'.repeat(10_000)).length, 500)
  })
})

describe('the end of a log', () => {
  it('is shown without control sequences of terminals', () => {
    const printed = '\x1b[01;34mdata\x1b[0m \x1b[?2004h\x1b]0;title\x07~ $ [not] <b>markup</b>'
    assert.equal(plainText(printed), 'data ~ $ [not] <b>markup</b>')
    const endless = `\x1b]${'x'.repeat(100_000)}`
    assert.equal(plainText(endless), endless)
  })

  const entry = (ms: number, message: string) => ({
    timestamp: new Date(ms).toISOString(),
    level: 'info' as const,
    message,
    fields: {},
  })

  it('takes each entry once, even of the same millisecond', () => {
    const tail = new LogTail()
    assert.ok(tail.add([entry(1, 'a'), entry(5, 'b'), entry(5, 'b')]))
    assert.equal(tail.cursor, 5)
    assert.ok(!tail.add([entry(5, 'b'), entry(5, 'b')]))
    assert.ok(tail.add([entry(5, 'b'), entry(5, 'b'), entry(5, 'c')]))
    assert.ok(tail.add([entry(5, 'b'), entry(5, 'b'), entry(5, 'c'), entry(9, 'b')]))
    assert.equal(tail.lines.map(({ message }) => message).join(''), 'abbcb')
    assert.equal(new Set(tail.lines.map(({ key }) => key)).size, 5)
  })

  it('keeps a limited number of entries', () => {
    const tail = new LogTail()
    tail.add(Array.from({ length: 5000 }, (_, at) => entry(at + 1, String(at))))
    assert.equal(tail.lines.length, 2000)
    assert.equal(tail.lines.at(-1)!.message, '4999')
  })
})

describe('files', () => {
  it('have paths with the folders above them', () => {
    assert.equal(joinPath('/', 'a'), '/a')
    assert.deepEqual(
      trailOf('/home/user').map(({ path }) => path),
      ['/', '/home', '/home/user'],
    )
    const entry = (name: string, isFolder: boolean) => ({ name, path: name, size: 0, mode: 0, isFolder })
    const sorted = sortEntries([entry('b', false), entry('a', false), entry('z', true)])
    assert.deepEqual(
      sorted.map(({ name }) => name),
      ['z', 'a', 'b'],
    )
  })

  it('count as text if they are valid UTF-8 without NUL', () => {
    assert.equal(textOf(new TextEncoder().encode('grüße')), 'grüße')
    assert.equal(textOf(new Uint8Array([65, 0, 66])), undefined)
    assert.equal(textOf(new Uint8Array([0xff, 0xfe, 65])), undefined)
  })
})

describe('a volume', () => {
  it('is mounted in the sandboxes that name it', () => {
    const volumeMounts = [{ name: 'data', path: '/data' }]
    const two = [{ sandboxID: 'ione' }, { sandboxID: 'itwo', volumeMounts }]
    assert.deepEqual([...mountsOf(two)], [['data', [{ sandboxID: 'itwo', path: '/data' }]]])
  })
})

describe('a chart', () => {
  it('shows the time from the first sample to the last, and one sample alone in its minute', () => {
    assert.deepEqual(timeRange([1000, 2000]), [1000, 2000])
    assert.deepEqual(timeRange([1000, 1010]), [950, 1010])
    assert.deepEqual(timeRange([1000]), [940, 1000])
    assert.deepEqual(timeRange([]), [null, null])
  })
})

describe('forms', () => {
  it('parse pairs and lines as people write them', () => {
    assert.deepEqual(parsePairs('user=42\n\n note = a=b '), { user: '42', note: 'a=b' })
    assert.throws(() => parsePairs('nothing\na=b\n=x'), /'nothing' is not key=value.\n'=x' is not key=value./)
    assert.deepEqual(parseLines('a.example, b.example\n\n c.example '), [
      'a.example',
      'b.example',
      'c.example',
    ])
  })
})

describe('the log of a build', () => {
  it('shows the duration of each step', () => {
    const at = (seconds: number, message: string, step?: string) => ({
      timestamp: new Date(seconds * 1000).toISOString(),
      level: 'info' as const,
      message,
      ...(step !== undefined && { step }),
    })
    const entries = [
      at(1, 'begin'),
      at(2, 'RUN a', '1'),
      at(3, 'output', '1'),
      at(7, 'RUN b', '2'),
      at(8, 'end'),
    ]
    assert.deepEqual(
      stepsOf(entries, 9000).map(({ title, ms }) => [title, ms]),
      [
        ['RUN a', 5000],
        ['RUN b', 2000],
      ],
    )
  })
})

describe('the form of a new template', () => {
  const form = { ...emptyTemplateForm, name: ' mine ' }

  it('becomes the requests of an image, with credentials only where some are given', () => {
    const image = { ...form, image: ' python:3.13 ' }
    assert.deepEqual(templateRequests(image), {
      request: { name: 'mine' },
      start: { fromImage: 'python:3.13', steps: [], startCmd: null, readyCmd: null },
    })
    const more = { ...image, user: 'me', password: 'p', cpuCount: '2', memoryMB: '512', startCmd: 'serve' }
    const { request, start } = templateRequests(more)
    assert.deepEqual(request, { name: 'mine', cpuCount: 2, memoryMB: 512 })
    assert.deepEqual(start.fromImageRegistry, { type: 'registry', username: 'me', password: 'p' })
    assert.deepEqual([start.startCmd, start.readyCmd], ['serve', 'sleep 20'])
    assert.throws(
      () => templateRequests({ ...image, name: 'NOT one', password: 'p', cpuCount: '3', memoryMB: '511' }),
      /^Error: 'NOT one' is not a name.*\nCPU count.*\nMemory must.*\nThe password.* needs a user name/,
    )
  })

  it('becomes the steps of a Dockerfile, and is rejected with the line that needs files', () => {
    const pasted = { ...form, source: 'dockerfile' as const, image: 'ignored' }
    const dockerfile = 'FROM a\nLABEL warren.gpus=1\nRUN make\nUSER me\nWORKDIR /srv\nCMD ["serve"]'
    const { request, start } = templateRequests({ ...pasted, dockerfile, readyCmd: 'true' })
    assert.deepEqual([request.gpuCount, start.fromImage, start.readyCmd], [1, 'a', 'true'])
    assert.match(start.startCmd ?? '', /serve/)
    assert.deepEqual(start.steps?.[2], { type: 'RUN', args: ['make'] })
    for (const [text, problem] of [
      ['FROM a\nCOPY x /y', /line 2: COPY and ADD need files/],
      ['FROM a\nNONSENSE', /line 2/],
      ['RUN a', /FROM must come first/],
    ] as const) {
      assert.throws(() => templateRequests({ ...pasted, dockerfile: text }), problem)
    }
  })
})

describe('the shares of teams', () => {
  const share = (teamID: string, usedBytes: number, aboveBytes = 0) => ({
    teamID,
    usedBytes,
    fairBytes: 10,
    aboveBytes,
  })
  const resource = (...teams: ReturnType<typeof share>[]) => ({ freeBytes: 1, startBytes: 1, teams })

  it('are one row for memory and disk, and who has to give back comes first, then who uses most', () => {
    const rows = teamShares({
      memory: resource(share('large', 9), share('small', 2)),
      disk: resource(share('small', 30, 20), share('stopped', 5)),
      connections: { count: 9, max: 90, teams: [{ teamID: 'small', count: 7 }] },
    })
    assert.deepEqual(
      rows.map(({ teamID, memory, disk, connections }) => [
        teamID,
        memory?.usedBytes,
        disk?.usedBytes,
        connections,
      ]),
      [
        ['small', 2, 30, 7],
        ['large', 9, undefined, 0],
        ['stopped', undefined, 5, 0],
      ],
    )
  })
})
