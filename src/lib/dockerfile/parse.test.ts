// biome-ignore-all lint/suspicious/noTemplateCurlyInString: they are texts of Dockerfiles
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { describe, it } from 'node:test'
import { Template } from 'e2b'
import { AppError } from '../app-error.ts'
import { type DockerTemplate, parseDockerfile } from './parse.ts'

const parse = (lines: string | string[], args?: Record<string, string>): DockerTemplate =>
  parseDockerfile([lines].flat().join('\n'), args)

/** The steps that the lines add to those that every Dockerfile has. */
function stepsOf(lines: string | string[], args?: Record<string, string>) {
  const { steps } = parse(['FROM debian', ...[lines].flat()], args)
  const own = steps.slice(2).filter(({ line }) => line > 1)
  return own.map(({ type, args }) => [type, ...args]).filter((step) => !isEnd(step))
}
const isEnd = (step: string[]) => ['USER user', 'WORKDIR /home/user'].includes(step.join(' '))

describe('a Dockerfile', () => {
  it('becomes the same steps as with the unmodified client', async () => {
    const text = [
      '# the usual',
      'FROM debian:12-slim',
      'ENV GREETING=hello PLAIN=1',
      'WORKDIR /app',
      'RUN echo one && \\',
      '  echo two',
      'USER builder',
      'ENV OLD style',
      'EXPOSE 80',
      'CMD sleep 5',
    ].join('\n')
    const client = JSON.parse(await Template.toJSON(Template().fromDockerfile(text), false))
    const { image, steps, startCmd } = parse(text)
    assert.equal(image, client.fromImage)
    assert.equal(startCmd, client.startCmd)
    // The client makes one space out of several.
    const shown = steps.map(({ type, args }) => ({ type, args: args.map((arg) => arg.replace(/ +/g, ' ')) }))
    assert.deepEqual(
      shown,
      client.steps.map(({ type, args }: { type: string; args: string[] }) => ({ type, args })),
    )
  })

  it('begins as root in / and ends as the user at home, unless it says otherwise', () => {
    const steps = (lines: string[]) => parse(lines).steps.map(({ type, args }) => `${type} ${args}`)
    assert.deepEqual(steps(['FROM a']), ['USER root', 'WORKDIR /', 'USER user', 'WORKDIR /home/user'])
    assert.deepEqual(steps(['FROM a', 'WORKDIR /x', 'USER y']).slice(2), ['WORKDIR /x', 'USER y'])
  })

  it('is read with comments, empty lines, Windows line ends, small letters and a byte order mark', () => {
    const text =
      '\uFEFF# syntax=docker/dockerfile:1\r\n\r\nfrom debian\r\nrun one && \\\r\n# between\r\n\r\n  two \\  \r\n  three # kept\r\n'
    assert.deepEqual(
      parse(text).steps.filter(({ type }) => type === 'RUN'),
      [{ type: 'RUN', args: ['one &&   two   three # kept'], line: 4 }],
    )
  })

  it('may end in a continued line, and keeps two backslashes', () => {
    assert.deepEqual(stepsOf('RUN a \\'), [['RUN', 'a']])
    assert.deepEqual(stepsOf(['RUN a \\\\', 'RUN b']), [
      ['RUN', 'a \\\\'],
      ['RUN', 'b'],
    ])
  })
})

describe('FROM', () => {
  const image = (lines: string[], args?: Record<string, string>) => parse(lines, args).image
  it('names the image with its tag or digest', () => {
    const digest = `debian@sha256:${'a'.repeat(64)}`
    assert.equal(image([`FROM ${digest}`]), digest)
    assert.equal(image(['FROM localhost:5000/a/b:1.2 AS only']), 'localhost:5000/a/b:1.2')
    const { notes } = parse('FROM --platform=linux/amd64 debian')
    assert.match(notes[0]!, /line 1: --platform is ignored/)
  })

  it('takes variables of the ARG before it, and of the command line', () => {
    const lines = ['ARG NAME=debian', 'ARG TAG', 'FROM ${NAME}:${TAG:-12}']
    assert.equal(image(lines), 'debian:12')
    assert.equal(image(lines, { TAG: '13', NAME: 'ubuntu' }), 'ubuntu:13')
  })
})

describe('ARG and ENV', () => {
  it('set variables for later steps, in both forms', () => {
    assert.deepEqual(
      stepsOf(['ENV A=1 B="two words" C=\'$A\' D=$A/${B:-x} E=a\\ b F=', 'ENV G  some "old" $A']),
      [
        ['ENV', 'A', '1', 'B', 'two words', 'C', '\\$A', 'D', '$A/${B:-x}', 'E', 'a b', 'F', ''],
        ['ENV', 'G', 'some old $A'],
      ],
    )
  })

  it('ARG has its default, the value of the command line, or that before FROM', () => {
    assert.deepEqual(stepsOf('ARG A=1 B'), [['ENV', 'A', '1']])
    assert.deepEqual(stepsOf('ARG A=1 B', { A: '$2', B: '3' }), [['ENV', 'A', '\\$2', 'B', '3']])
    const { steps } = parse(['ARG V=7', 'ARG W=8', 'FROM a', 'ARG V', 'RUN b'])
    assert.deepEqual(steps[2], { type: 'ENV', args: ['V', '7'], line: 4 })
    assert.equal(steps[3]!.type, 'RUN')
  })

  it('ARG does not override ENV, and an unused argument is noted', () => {
    assert.deepEqual(stepsOf(['ENV A=1', 'ARG A=2']), [['ENV', 'A', '1']])
    assert.match(parse('FROM a', { NONE: '1' }).notes[0]!, /NONE: no ARG/)
    assert.match(parse(['FROM a', 'ARG TARGETARCH']).notes[0]!, /--build-arg TARGETARCH/)
  })
})

describe('RUN', () => {
  it('is a text for the shell, or a list of words that reach the program unchanged', () => {
    assert.deepEqual(stepsOf('RUN [ -f x ] && echo "$A"'), [['RUN', '[ -f x ] && echo "$A"']])
    assert.deepEqual(stepsOf('RUN ["echo", "it\'s $HOME", ""]'), [['RUN', "echo 'it'\\''s $HOME' ''"]])
  })

  it('runs in the shell that SHELL names', () => {
    assert.deepEqual(stepsOf(['SHELL ["/bin/bash", "-o", "pipefail", "-c"]', 'RUN a | b']), [
      ['RUN', "/bin/bash -o pipefail -c 'a | b'"],
    ])
  })

  it('takes heredocs: as its script, as a program, or as the input of a command', () => {
    assert.deepEqual(stepsOf(['RUN <<EOF', 'one', '# not a comment', '', 'two \\', 'EOF', 'RUN after']), [
      ['RUN', 'one\n# not a comment\n\ntwo \\\n'],
      ['RUN', 'after'],
    ])
    assert.deepEqual(stepsOf(['RUN <<-"E"', '\tone', '\tE']), [['RUN', 'one\n']])
    const [[, program]] = stepsOf(['RUN <<EOF', '#!/usr/bin/env python3', "print('x')", 'EOF']) as [string[]]
    assert.match(program!, /mktemp.*#!\/usr\/bin\/env python3\nprint\('\\''x'\\''\)\n' > "\$script"/s)
    assert.deepEqual(stepsOf(['RUN cat <<A > /x && cat 3<<"B"', 'a', 'A', 'b', 'B']), [
      ['RUN', 'cat <<A > /x && cat 3<<"B"\na\nA\nb\nB'],
    ])
    assert.deepEqual(stepsOf(['RUN echo "<<EOF" \'a <<EOF b\' $((1<<2))', 'RUN cat <<< here']), [
      ['RUN', 'echo "<<EOF" \'a <<EOF b\' $((1<<2))'],
      ['RUN', 'cat <<< here'],
    ])
  })

  it('ignores cache mounts', () => {
    const { notes, steps } = parse(['FROM a', 'RUN --mount=type=cache,target=/c pip install x'])
    assert.deepEqual(steps[2]!.args, ['pip install x'])
    assert.match(notes[0]!, /line 2: RUN --mount is ignored/)
  })
})

describe('COPY and ADD', () => {
  it('take files with owner and mode, one step for each source', () => {
    assert.deepEqual(stepsOf('COPY --chown=me:us --chmod=755 --link a ./b/ /srv/'), [
      ['COPY', 'a', '/srv/', 'me:us', '0755'],
      ['COPY', 'b', '/srv/', 'me:us', '0755'],
    ])
    assert.deepEqual(stepsOf('ADD ["a b", "/to here"]'), [['COPY', 'a b', '/to here', '', '']])
    assert.deepEqual(stepsOf('COPY . .'), [['COPY', '.', '.', '', '']])
    assert.deepEqual(stepsOf('COPY /a/../b/*.txt "/x y/$Z"'), [['COPY', 'b/*.txt', '/x y/$Z', '', '']])
  })

  it('find files by variables of the Dockerfile, and leave the destination to the build', () => {
    const lines = ['ARG D=src', 'ENV E=$D/deep', 'COPY --chown=$D $E/a $HOME/']
    assert.deepEqual(stepsOf(lines).at(-1), ['COPY', 'src/deep/a', '$HOME/', 'src', ''])
    const { steps } = parse(['FROM a', "COPY 'a$b' /"])
    assert.deepEqual([steps[2]!.source, steps[2]!.args[0]], ['a$b', 'a\\$b'])
  })

  it('write a heredoc to its place, with its variables expanded or not', () => {
    const [[type, command, user]] = stepsOf([
      'USER me',
      'COPY --chmod=600 <<EOF /etc/$A/',
      '$A `b` $(c) \\d',
      'EOF',
    ]).slice(1) as [string[]]
    assert.deepEqual([type, user], ['RUN', 'root'])
    assert.match(command!, /target="\/etc\/\$A\/"/)
    assert.match(command!, /<<EOF\n\$A \\`b\\` \\\$\(c\) \\\\d\nEOF\nchown "me:" "\$target"\nchmod 0600/)
    const [[, literal]] = stepsOf(["COPY <<'EOF' /x", '$A `b`', 'EOF']) as [string[]]
    assert.match(literal!, /<<'EOF'\n\$A `b`\nEOF/)
  })
})

describe('CMD and ENTRYPOINT', () => {
  const start = (...lines: string[]) => parse(['FROM a', ...lines]).startCmd
  it('are the start command', () => {
    assert.equal(start(), null)
    assert.equal(start('CMD node app.js $X'), 'node app.js $X')
    assert.equal(start('CMD ["node", "a b.js"]'), "node 'a b.js'")
    assert.equal(start('CMD first', 'CMD last'), 'last')
    assert.equal(start('ENTRYPOINT ["a"]', 'CMD ["b", "$c"]'), "a b '$c'")
    assert.equal(start('CMD b c', 'ENTRYPOINT ["a"]'), "a /bin/sh -c 'b c'")
    assert.equal(start('ENTRYPOINT a $X', 'CMD ["b"]'), 'a $X')
    assert.equal(start('ENTRYPOINT []', 'CMD []'), null)
    assert.equal(start('SHELL ["bash", "-c"]', 'CMD a b'), "bash -c 'a b'")
  })
})

describe('an unsupported instruction', () => {
  const refused: [lines: string | string[], line: number, says: RegExp][] = [
    [['FROM a AS b', 'FROM c'], 2, /second FROM.*one stage/],
    ['COPY --from=b /x /y', 2, /--from another stage/],
    ['COPY --parents x /y/', 2, /--parents cannot be honoured/],
    ['ADD https://example.com/x /y', 2, /cannot download.*curl/],
    ['ADD git@example.com:x/y.git /y', 2, /cannot download/],
    ['ADD app.tar.gz /y', 2, /would unpack.*COPY/],
    ['COPY ../x /y', 2, /not within the folder/],
    ['COPY a/../../x /y', 2, /not within the folder/],
    ['COPY "" /y', 2, /not within the folder/],
    ['COPY x', 2, /at least one source/],
    ['COPY a b c', 2, /end the destination with a slash/],
    ['COPY --chmod=u+x a b', 2, /no mode/],
    ['COPY $HOME/x y', 2, /\$HOME is not known before the build/],
    [['ENV A=$PATH', 'COPY $A y'], 3, /\$A is not known/],
    ['ONBUILD RUN x', 2, /ONBUILD/],
    ['RUN --mount=type=secret,id=x cat y', 2, /--mount=type=secret,id=x cannot be honoured/],
    ['RUN --network=none x', 2, /--network=none/],
    ['RUN []', 2, /takes a command/],
    [['RUN <<EOF', 'EOF'], 2, /takes a command/],
    [['RUN <<EOF', 'x'], 2, /heredoc EOF never ends/],
    ['SHELL bash', 2, /SHELL takes a list/],
    ["CMD ['a']", 2, /double quotes/],
    ['ENV A=b c', 2, /not 'c'/],
    ['ENV A', 2, /no value/],
    ['ENV =b', 2, /no name/],
    ['ENV 1A=b', 2, /no name/],
    ['ENV A="b', 2, /quote \("\) is not closed/],
    ['ENV A=${B#c}', 2, /of variables, only/],
    ['ENV A=${', 2, /of variables, only/],
    ['ENV A=\\\\$B', 2, /backslash right before/],
    ['ARG a-b', 2, /ARG takes NAME/],
    ['WORKDIR', 2, /WORKDIR says nothing/],
    ['WORKDIR /a b', 2, /put spaces in quotes/],
    ['USER ""', 2, /one word/],
    [['', '', 'INSTALL x'], 4, /no instruction 'INSTALL'/],
    ['CONSTRUCTOR x', 2, /no instruction/],
    ['R\u001bUN x', 2, /'R\?UN' is no instruction/],
    ['<html>', 2, /'<html>' is no instruction/],
  ]
  for (const [lines, line, says] of refused) {
    it(`is rejected: ${JSON.stringify(lines)}`, () => {
      const all = [lines].flat()
      const whole = all[0]!.startsWith('FROM') ? all : ['FROM debian', ...all]
      assert.throws(
        () => parse(whole),
        (error) => {
          assert.ok(error instanceof AppError)
          assert.match(error.message, new RegExp(`^Dockerfile, line ${line}: `))
          assert.match(error.message, says)
          return true
        },
      )
    })
  }

  it('is rejected: no FROM, another instruction before it, or a FROM without a name', () => {
    assert.throws(() => parse(''), /no FROM/)
    assert.throws(() => parse('ARG A=1'), /no FROM/)
    assert.throws(() => parse('RUN x'), /line 1: FROM must come first/)
    assert.throws(() => parse('FROM'), /line 1: FROM says nothing/)
    assert.throws(() => parse('FROM $A'), /names no image/)
    assert.throws(() => parse('FROM a b'), /one image/)
    assert.throws(() => parse('FROM scratch'), /scratch/)
    assert.throws(() => parse(['# escape=`', 'FROM a']), /line 1: only a backslash/)
  })
})

describe('a hostile Dockerfile', () => {
  it('is read or rejected with its line, whatever it contains, and quickly', () => {
    const pieces = [
      ...[
        'FROM',
        'RUN',
        'COPY',
        'ADD',
        'ENV',
        'ARG',
        'USER',
        'WORKDIR',
        'CMD',
        'SHELL',
        'ONBUILD',
        'from debian',
      ],
      ...[
        ' ',
        '\t',
        '\n',
        '\r\n',
        '\\',
        '\\\n',
        '"',
        "'",
        '$',
        '${',
        '}',
        ':-',
        ':+',
        '=',
        '[',
        ']',
        '["a"]',
        '<<',
      ],
      ...[
        '<<EOF',
        '<<-EOF',
        'EOF',
        '\nEOF\n',
        '#',
        '--from=',
        '--chown=',
        '..',
        '/',
        '*',
        'a',
        'B1',
        '\0',
        '\u2028',
        '😀',
        '\ud800',
      ],
    ]
    // Always the same seed, so that a failure can be repeated.
    let state = 1
    const next = (below: number) => {
      state = (state * 48271) % 2147483647
      return state % below
    }
    let read = 0
    for (let round = 0; round < 20_000; round += 1) {
      const text = Array.from({ length: next(40) }, () => pieces[next(pieces.length)]).join('')
      try {
        parseDockerfile(`FROM debian\n${text}`, { B1: 'x' })
        read += 1
      } catch (error) {
        assert.ok(
          error instanceof AppError && /^Dockerfile, line \d+: ./.test(error.message),
          `${error}\n${text}`,
        )
        assert.ok(error.message.length < 400)
      }
    }
    assert.ok(read > 500, `only ${read} were read`)
  })

  it('cannot make the parser slow', () => {
    const many = 100_000
    const texts = [
      `ENV A=${'"'.repeat(many)}`,
      `ENV A=${'${A:-'.repeat(many)}`,
      `RUN ${'<<A '.repeat(many)}`,
      `RUN a${' '.repeat(many)}b ${'\\ '.repeat(many)}`,
      `RUN ${'\'"'.repeat(many)} <<`,
      `RUN ${'\\\n'.repeat(many)}`,
      `COPY ${'['.repeat(many)} /x`,
      `${'#\n'.repeat(many)}X`,
    ]
    for (const text of texts) {
      const startedAt = performance.now()
      try {
        parseDockerfile(`FROM a\n${text}`)
      } catch (error) {
        assert.ok(error instanceof AppError, String(error))
      }
      assert.ok(performance.now() - startedAt < 20_000, text.slice(0, 30))
    }
  })

  it('is rejected with its line if its variables repeat each other, before they fill the memory', () => {
    const tenfold = (verb: string) =>
      Array.from({ length: 12 }, (_, i) => `${verb} A${i + 1}=${`$A${i}`.repeat(10)}`).join('\n')
    for (const verb of ['ENV', 'ARG']) {
      assert.throws(
        () => parseDockerfile(`FROM a\n${verb} A0=xxxxxxxxxx\n${tenfold(verb)}`),
        /Dockerfile, line 7: variables make the text longer than 131072 characters/,
      )
    }
    assert.throws(() => parseDockerfile(`ARG A0=xxxxxxxxxx\n${tenfold('ARG')}\nFROM a`), /line 6: variables/)
    const wide = `FROM a\nENV A=${'x'.repeat(1000)}\nENV B=${'$A'.repeat(100)}\n`
    const copies = Array.from({ length: 20 }, (_, i) => `ENV C${i}=$B`).join('\n')
    assert.throws(() => parseDockerfile(wide + copies), /line 13: all variables together have more than/)
    assert.throws(
      () => parseDockerfile(`${wide}COPY $B /x`),
      /line 4: variables make the text longer than 4096/,
    )
  })

  it('with many variables is read as fast as one with few', { timeout: 60_000 }, () => {
    const lines = Array.from({ length: 60_000 }, (_, i) => `ENV A${i}=1`)
    assert.equal(parseDockerfile(`FROM a\n${lines.join('\n')}`).steps.length, 60_004)
    parseDockerfile(`FROM a\nENV A=${'${B:-${C}}'.repeat(200_000)}`)
  })

  it('is rejected if it is another kind of file', () => {
    const program = readFileSync(process.execPath).subarray(0, 100_000).toString()
    assert.throws(() => parseDockerfile(program), AppError)
  })
})
