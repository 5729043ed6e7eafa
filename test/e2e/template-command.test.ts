/** `warren template build`, as a person types it: a folder with a Dockerfile becomes a template. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { after, before, describe, it } from 'node:test'
import { buildContext, buildsOf, sayIn } from '../support/building.ts'
import { anyIsolation, noWarmPool, repoFolder, startWarren, type Warren } from '../support/warren.ts'

const dockerfile = `# syntax=docker/dockerfile:1
ARG BASE=e2bdev/base
FROM \${BASE} AS only
LABEL maintainer=nobody
ARG WHO=world
ENV GREETING="hello \${WHO}" EMPTY= LATER=\${NONE:-other}
WORKDIR /app
COPY --chown=user:user --chmod=0755 src/*.txt src/deep ./files/
COPY . all
RUN echo "$GREETING of $(whoami)" > greeting.txt && \\
    # a comment in between
    echo 'and  more' >> greeting.txt
RUN ["sh", "-c", "echo \\"$0\\" > exec.txt", "it's $HOME"]
RUN <<EOF
set -e
echo script > script.txt
test -f greeting.txt
EOF
RUN <<EOF
#!/usr/bin/env python3
open('program.txt', 'w').write('python')
EOF
COPY --chmod=644 <<EOF conf/app.conf
who=$WHO home=\`pwd\`
EOF
USER builder
ENTRYPOINT ["python3", "-m", "http.server"]
CMD ["8000"]
`

const files = {
  Dockerfile: dockerfile,
  'src/a.txt': 'a',
  'src/b.txt': 'b',
  'src/c.md': 'c',
  'src/deep/er.txt': 'er',
  'link.txt': '->src/a.txt',
  'secret.key': 'secret',
  '.dockerignore': '*.key\nsrc\n!src/*.txt\n!src/deep\nDockerfile\n.dockerignore\n',
}

describe('warren template build', () => {
  let warren: Warren
  before(async () => {
    warren = await startWarren(anyIsolation, { settings: noWarmPool })
  })
  after(() => warren?.stop())

  const build = async (args: string[], environment?: Record<string, string>) => {
    const clean = Object.entries(process.env).filter(([name]) => !/^(WARREN|E2B)_/.test(name))
    const env = { ...Object.fromEntries(clean), ...(environment ?? { WARREN_DATA_DIR: warren.dataFolder }) }
    const child = spawn(join(repoFolder, 'bin/warren'), ['template', 'build', ...args], { env })
    const code = new Promise<number | null>((done) => void child.once('close', done))
    const [out, error] = await Promise.all([text(child.stdout), text(child.stderr)])
    return { code: await code, out, error }
  }

  it('builds the same from a Dockerfile as Docker, and finds the server by its data folder', async () => {
    using context = await buildContext(files)
    const ready = '[ -n "$(ss -Htuln sport = :8000)" ]'
    const options = ['--name', 'CmdLine', '--cpu', '1', '--memory', '512', '--build-arg', 'WHO=warren']
    const built = await build([context.folder, ...options, '--ready-cmd', ready])
    assert.equal(built.code, 0, built.out + built.error)
    assert.match(built.out, /^Note: line 4: LABEL is ignored/m)
    assert.match(built.out, /\[builder \d+\/\d+\] COPY \. all/)
    assert.match(built.out, /The template cmdline is ready .*Sandbox\.create\('cmdline'\)\n$/)
    const show = [
      'whoami; pwd; cat greeting.txt exec.txt script.txt program.txt; echo; cat conf/app.conf; echo "$LATER"',
      'stat -c "%n %a %U" all files/* conf/app.conf; find all -printf "%p %y %l\\n" | sort',
      'curl -s localhost:8000/script.txt',
    ].join('; ')
    assert.deepEqual((await sayIn(warren, 'cmdline', show)).trimEnd().split('\n'), [
      ...['builder', '/app', 'hello warren of root', 'and  more', "it's $HOME", 'script', 'python'],
      ...['who=warren home=`pwd`', 'other'],
      ...['all 755 root', 'files/a.txt 755 user', 'files/b.txt 755 user', 'files/er.txt 755 user'],
      'conf/app.conf 644 root',
      ...['all d ', 'all/link.txt l src/a.txt', 'all/src d ', 'all/src/a.txt f ', 'all/src/b.txt f '],
      ...['all/src/deep d ', 'all/src/deep/er.txt f '],
      'script',
    ])
    const again = await build([context.folder, ...options, '--ready-cmd', ready])
    assert.equal(again.code, 0, again.out + again.error)
    assert.ok(!/Sending/.test(again.out), 'files that are there were sent again')
    const steps = again.out.split('\n').filter((line) => /\[builder \d+\/\d+\] [A-Z]/.test(line))
    assert.ok(steps.length > 10 && steps.every((line) => line.startsWith('CACHED ')), again.out)
  })

  it('finds the server by the variables of a client, tags the build, and prints the result as JSON', async () => {
    using context = await buildContext({ Dockerfile: 'FROM e2bdev/base\nRUN echo tagged > /home/user/tag' })
    const args = [context.folder, '--name', 'tagged', '--tag', 'v1', '--json']
    const built = await build(args, warren.environment)
    assert.equal(built.code, 0, built.error)
    const { buildID, tags } = JSON.parse(built.out)
    assert.deepEqual(tags, ['v1'])
    assert.match(built.error, /Template is ready/)
    assert.equal((await buildsOf(warren, 'tagged'))[0]!.buildID, buildID)
    assert.equal(await sayIn(warren, 'tagged:v1', 'cat tag'), 'tagged\n')
  })

  it('ends with 1 and the line of the Dockerfile if a step fails, after its log', async () => {
    const failing = 'FROM e2bdev/base\n\nRUN echo before\nRUN echo why >&2; exit 3\n'
    using context = await buildContext({ Dockerfile: failing })
    const built = await build([context.folder, '--name', 'fails'])
    assert.equal(built.code, 1)
    assert.match(built.out, /\[stdout\]: before[\s\S]*\[stderr\]: why/)
    const says =
      /^The build failed in line 4 of the Dockerfile: failed to run command '.*exit status 3\. This was step \d of \d; its last output: 'why'\.\n$/
    assert.match(built.error, says)
    assert.equal((await buildsOf(warren, 'fails'))[0]!.status, 'error')
  })

  it('rejects bad input and leaves nothing on the server', async () => {
    using context = await buildContext({ Dockerfile: 'FROM e2bdev/base\nCOPY --from=other /x /y\n' })
    using plain = await buildContext({ Dockerfile: 'FROM e2bdev/base\n' })
    const wrongKey = { ...warren.environment, E2B_API_KEY: `e2b_${'0'.repeat(40)}` }
    const cases: [args: string[], code: number, says: RegExp, environment?: Record<string, string>][] = [
      [[context.folder, '--name', 'bad'], 1, /^Dockerfile, line 2: --from another stage/],
      [[join(context.folder, 'none'), '--name', 'bad'], 1, /^There is no Dockerfile in/],
      [[], 2, /DIR is missing.*--help/],
      [[plain.folder, '--name', 'bad', '--cpu', '3'], 1, /CPU count must be 1 or an even number/],
      [[plain.folder, '--name', 'b a d'], 1, /Invalid name/],
      [[plain.folder, '--name', 'bad'], 1, /API key/i, wrongKey],
      [[plain.folder, '--name', 'bad'], 1, /E2B_API_KEY is not set/, { E2B_API_URL: warren.url }],
      [[plain.folder, '--name', 'bad'], 1, /No Warren is running on/, { WARREN_DATA_DIR: context.folder }],
    ]
    for (const [args, code, says, environment] of cases) {
      const built = await build(args, environment)
      assert.match(built.error, says)
      assert.equal(built.code, code, built.error)
      assert.ok(!/\n\s+at /.test(built.error), built.error)
    }
    assert.equal((await warren.api('/templates/aliases/bad')).status, 404)
  })
})
