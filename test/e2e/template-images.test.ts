/**
 * Images of real registries and of a folder, and every tool that a builder method calls, with the newest unmodified
 * JavaScript client: what others ask for is the same (builder-requests.test.ts). What the tools fetch lies in the
 * template: nothing here needs the network. Sandboxes of images on both runtimes are in
 * security/template-builds.test.ts, and roots of every kind in roots.test.ts.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, before, describe, it } from 'node:test'
import { BuildError, Sandbox, Template, type TemplateBuilder } from 'e2b'
import { type BuildContext, buildContext, buildsOf, sayIn } from '../support/building.ts'
import { imageBuilders, refusedBuilders, toolBuilders } from '../support/image-builders.ts'
import { type ImageStores, openImageStores } from '../support/image-stores.ts'
import { registryLogin, serviceAccount } from '../support/registry.ts'
import { anyIsolation, noWarmPool, startWarren, type Warren } from '../support/warren.ts'
import { runCommandLine } from '../support/warren-command.ts'

/** Repositories of git, Debian, Python and npm, and programs that write down how they were called. */
const makeSources = `set -e
cd /srv
git config --system safe.directory '*'
git config --system init.defaultBranch main
git init -q repo && cd repo && git config user.name t && git config user.email t@localhost
echo main > which && git add . && git commit -qm one && git switch -qc other
echo other > which && git commit -qam two && git switch -q main && cd ..
mkdir -p deb/DEBIAN deb/usr/share/local-deb apt js
printf 'Package: local-deb\\nVersion: 1\\nArchitecture: all\\nMaintainer: t <t@localhost>\\nDescription: t\\n' > deb/DEBIAN/control
echo deb > deb/usr/share/local-deb/what
dpkg-deb -b deb apt/local-deb.deb > /dev/null && cd apt && dpkg-scanpackages . > Packages 2> /dev/null && cd ..
rm -f /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/apt ./' > /etc/apt/sources.list
python3 wheel.py local_py local_own
echo '{"name":"local-js","version":"1.0.0","bin":"cli.js"}' > js/package.json
printf '#!/usr/bin/env node\\nconsole.log("js")\\n' > js/cli.js
chown -R user js
touch said && chmod 666 said
for tool in bun mcp-gateway devcontainer; do
  printf '#!/bin/sh\\necho "$(id -un): \${0##*/} $*" >> /srv/said\\n' > /usr/local/bin/$tool && chmod 755 /usr/local/bin/$tool
done
printf '#!/bin/sh\\necho "# prepared $1"\\n' > /prepare-exec.sh && chmod 755 /prepare-exec.sh`

const makeWheels = `import sys, zipfile
for name in sys.argv[1:]:
    with zipfile.ZipFile(f"{name}-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", "what = __name__")
        wheel.writestr(f"{name}-1.dist-info/METADATA", f"Metadata-Version: 2.1\\nName: {name}\\nVersion: 1\\n")
        wheel.writestr(f"{name}-1.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{name}-1.dist-info/RECORD", "")
`

/** What the template of `tools` says when all of them did what they were asked for. */
const checkTools = `cat clone/which shallow/which /usr/share/local-deb/what
python3 -c "import local_py, local_own; print(local_py.what, local_own.what)"
local-js; ls node_modules; git -C shallow log --oneline | wc -l; stat -c %U clone shallow; cat /srv/said`
const toolsSay = [
  ...['main', 'other', 'deb', 'local_py local_own', 'js', 'local-js', '1', 'user', 'root'],
  ...['user: bun install', 'user: bun install --dev left', 'root: bun install -g one two'],
]

describe('images and tools', () => {
  let warren: Warren
  let stores: ImageStores
  let context: BuildContext
  before(async () => {
    stores = await openImageStores()
    warren = await startWarren(anyIsolation, { settings: { ...noWarmPool, ...stores.settings } })
    context = await buildContext({
      'srv/make.sh': makeSources,
      'srv/wheel.py': makeWheels,
      'account.json': serviceAccount,
    })
  })
  after(async () => {
    context?.[Symbol.dispose]()
    await warren?.stop()
    await stores?.close()
  })
  const muslImage = () => `${stores.closed.host}/team/musl:1`
  const reasonOf = async (name: string) => {
    const [build] = await buildsOf(warren, name)
    const path = `/templates/${build!.templateID}/builds/${build!.buildID}/status`
    const { reason } = (await (await warren.api(path)).json()) as {
      reason: { step: string; message: string }
    }
    return reason
  }

  it('starts from images of every kind, from any source', async () => {
    const names = { contextFolder: context.folder, muslImage: muslImage(), pinned: stores.pinned }
    await Promise.all(
      imageBuilders(Template, names).map(([kind, builder]) => Template.build(builder, kind, warren.client)),
    )
    assert.equal(
      await sayIn(warren, 'musl', 'musl-program; pwd; touch own; ls'),
      'user 42\n/home/user\nown\n',
    )
    assert.equal(await sayIn(warren, 'pinned', 'ls -l /bin/sh | grep -o busybox'), 'busybox\n')
    const asRoot = 'sudo id -un; curl --version | head -c 4; dpkg -s bash | head -n 1'
    assert.equal(await sayIn(warren, 'debian', asRoot), 'root\ncurlPackage: bash\n')
    const closed = 'find /usr/local ! -type l ! -perm -0666 | wc -l'
    for (const kind of ['debian', 'musl']) assert.equal((await sayIn(warren, kind, closed)).trim(), '0', kind)
  })

  it('reports why an image is missing', async () => {
    const refused = async (builder: TemplateBuilder, text: RegExp) => {
      await assert.rejects(Template.build(builder, 'refused', warren.client), (error: Error) => {
        assert.ok(error instanceof BuildError, String(error))
        assert.match(error.message, text)
        return true
      })
      const { step, message } = await reasonOf('refused')
      assert.equal(step, 'base')
      assert.match(message, text)
    }
    const { host } = stores.closed
    const wrong = { ...registryLogin, password: 'not-it' }
    const { password, region } = refusedBuilders(Template, muslImage())
    await refused(password, /gives no access to .*musl:1\. Check that the credentials/)
    await refused(Template().fromImage(muslImage()), /gives no access to .*musl:1\..*needs credentials/)
    await refused(Template().fromImage(`${host}/team/none:1`, registryLogin), /no image .*none:1/)
    await refused(Template().fromImage(`team/multi@sha256:${'0'.repeat(64)}`), /no image/)
    await refused(Template().fromDebianImage('no-such'), /has no image .*debian:no-such/)
    await refused(Template().fromImage(`${stores.open.host}/hub/team/multi:zstd`), /internal network/)
    await refused(region, /AWS region/)
    const mirrored = Template().fromImage('mirrored.example/none:1', wrong)
    await refused(mirrored, /no image .*team\/none:1/)
    assert.ok(!readFileSync(warren.logFile, 'utf8').includes(registryLogin.password))
  })

  it('runs an image and a size on the spot, by the command line and by metadata', async () => {
    const run = async (...args: string[]) => {
      const ended = await runCommandLine(warren.environment, ['run', ...args])
      assert.equal(ended.code, 0, ended.error)
      return ended
    }
    const first = await run('team/multi:zstd', 'sh', '-c', 'echo "$IMAGE $(id -un)"')
    assert.equal(first.out, 'multi user\n')
    assert.match(
      first.error,
      /^A template is being built of team\/multi:zstd;.*\[base\] FROM.*Build finished/s,
    )
    const second = await run('team/multi:zstd', '--', 'sh', '-c', 'echo "$IMAGE"')
    assert.deepEqual([second.out, second.error], ['multi\n', ''])
    assert.match((await run('--cpu', '1', '--memory', '512m', 'id', '-un')).error, /being built of base/)
    const metadata = { 'warren.image': 'debian:stable', 'warren.cpu': '1', 'warren.memory': '512' }
    const both = await Promise.all([1, 2].map(() => Sandbox.create({ ...warren.client, metadata })))
    for (const sandbox of both) {
      const { cpuCount, memoryMB } = await sandbox.getInfo()
      assert.deepEqual([cpuCount, memoryMB], [1, 512])
      assert.equal((await sandbox.commands.run('. /etc/os-release; echo $ID')).stdout, 'debian\n')
      await sandbox.kill()
    }
    assert.equal(new Set(both.map(({ sandboxId }) => sandboxId)).size, 2)
    const none = await runCommandLine(warren.environment, ['run', 'team/none:1', '--', 'true'])
    assert.equal(none.code, 125)
    assert.match(none.error, /no image .*none:1/)
    const refused = Sandbox.create({ ...warren.client, metadata: { 'warren.image': 'a b' } })
    await assert.rejects(refused, /400.*This is not the name of an image/)
  })

  it('installs, clones and prepares with the tools of the template', async () => {
    for (const [name, builder] of toolBuilders(Template, context.folder)) {
      await Template.build(builder, name, warren.client)
    }
    assert.deepEqual((await sayIn(warren, 'devcontainer', checkTools)).trimEnd().split('\n'), toolsSay)
    const [build, up] = ['build', 'up'].map(
      (verb) => `root: devcontainer ${verb} --workspace-folder /srv/repo\n`,
    )
    assert.equal(
      await sayIn(warren, 'container', 'tail -n 2 /srv/said; cat /devcontainer.sh'),
      `${build}${up}# prepared /srv/repo\n`,
    )
    const missing = Template().fromTemplate('mcp-gateway').aptInstall('no-such-package')
    await assert.rejects(
      Template.build(missing, 'missing', warren.client),
      /^BuildError: failed to run command 'apt-get update && .* no-such-package': exit status 100\. This was step 1 of 1; its last output: .*'\.$/,
    )
  })
})
