/** The published clients of the desktop against its built-in template, and its stream in a browser. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { after, before, describe, it } from 'node:test'
import { Sandbox } from '@e2b/desktop'
import { chromium } from 'playwright-core'
import { createProgress } from '../../src/app/setup/progress.ts'
import { installSystemPackages } from '../../src/app/setup/system-packages.ts'
import { eventually } from '../support/eventually.ts'
import { trustSettings } from '../support/host-authorities.ts'
import { pythonWith } from '../support/python.ts'
import { isolations, noWarmPool, repoFolder, startWarren, type Warren } from '../support/warren.ts'

const browser = { package: 'chromium', file: '/usr/bin/chromium', why: 'shows the stream of a desktop' }
const pngSignature = Buffer.from('89504e470d0a1a0a', 'hex')
const written = '/home/user/written.txt'

const pythonScript = `
from e2b_desktop import Sandbox
desktop = Sandbox.create(resolution=(800, 600), timeout=300)
assert desktop.get_screen_size() == (800, 600), desktop.get_screen_size()
desktop.move_mouse(30, 40)
assert desktop.get_cursor_position() == (30, 40)
assert bytes(desktop.screenshot()).startswith(b'\\x89PNG')
desktop.kill()
`

for (const isolation of isolations) {
  describe(`the desktop (${isolation})`, { timeout: 900_000 }, () => {
    let warren: Warren
    let desktop: Sandbox
    before(async () => {
      await installSystemPackages([browser], createProgress(process.stderr))
      warren = await startWarren(isolation, { settings: { ...trustSettings(), ...noWarmPool } })
      const added = spawnSync(`${repoFolder}/bin/warren`, ['template', 'add', 'desktop'], {
        env: { ...process.env, WARREN_DATA_DIR: warren.dataFolder },
        encoding: 'utf8',
      })
      assert.equal(added.status, 0, added.stdout + added.stderr)
      desktop = await Sandbox.create({ ...warren.client, timeoutMs: 600_000 })
    })
    after(() => warren?.stop())

    const windowsOf = async (program: string) => {
      let windows: string[] = []
      await eventually(async () => {
        windows = await desktop.getApplicationWindows(program)
      })
      return windows
    }

    it('shows a screen of the default size, with a mouse that moves and clicks', async () => {
      assert.deepEqual(await desktop.getScreenSize(), { width: 1024, height: 768 })
      await desktop.moveMouse(100, 200)
      assert.deepEqual(await desktop.getCursorPosition(), { x: 100, y: 200 })
      await desktop.drag([10, 500], [300, 600])
      assert.deepEqual(await desktop.getCursorPosition(), { x: 300, y: 600 })
      await desktop.leftClick(500, 500)
      assert.deepEqual(Buffer.from(await desktop.screenshot()).subarray(0, 8), pngSignature)
    })

    it('opens a text editor that takes typed text', async () => {
      await desktop.files.write(written, '')
      await desktop.open(written)
      const [editor] = await windowsOf('mousepad')
      assert.match(await desktop.getWindowTitle(editor!), /written\.txt/)
      await desktop.write(`It's "typed" & kept`)
      await desktop.press(['ctrl', 's'])
      await eventually(async () =>
        assert.match(await desktop.files.read(written), /^It's "typed" & kept\n?$/),
      )
    })

    it('opens a browser under the name that people know', async () => {
      await desktop.files.write('/home/user/page.html', '<title>A page of ours</title>')
      await desktop.launch('google-chrome', 'file:///home/user/page.html')
      const windows = await windowsOf('chromium')
      const titles = () => Promise.all(windows.map((id) => desktop.getWindowTitle(id)))
      await eventually(async () => assert.match((await titles()).join(), /A page of ours/))
    })

    it('streams to a browser that knows the password', async () => {
      await desktop.stream.start({ requireAuth: true })
      // Without a domain there is no TLS, which the client takes for granted.
      const url = desktop.stream.getUrl({ authKey: desktop.stream.getAuthKey() }).replace(/^https:/, 'http:')
      const shown = await chromium.launch({ executablePath: browser.file, args: ['--no-sandbox'] })
      try {
        const page = await shown.newPage()
        // Chromium gives requests up while other tests make network interfaces; loading again is what a person does.
        await eventually(async () => {
          await page.goto(url, { waitUntil: 'load' })
          await page.waitForSelector('.noVNC_connected canvas', { timeout: 10_000 })
        })
        const size = await page.evaluate(
          '(({ width, height }) => [width, height])(document.querySelector("canvas"))',
        )
        assert.deepEqual(size, [1024, 768])
        await page.mouse.move(400, 300)
        const before = await desktop.getCursorPosition()
        await page.mouse.move(440, 330)
        await eventually(async () => assert.notDeepEqual(await desktop.getCursorPosition(), before))
      } finally {
        await shown.close()
      }
      await desktop.stream.stop()
    })

    if (isolation === 'gvisor') {
      it('continues unchanged after a pause', async () => {
        const before = await desktop.getApplicationWindows('mousepad')
        await desktop.pause()
        await desktop.connect()
        assert.deepEqual(await desktop.getApplicationWindows('mousepad'), before)
      })
    }

    it('works in the same way from Python', () => {
      const python = pythonWith('e2b-desktop==2.7.2')
      const env = { ...process.env, ...warren.environment }
      const ran = spawnSync(python, ['-c', pythonScript], { env, encoding: 'utf8' })
      assert.equal(ran.status, 0, ran.stdout + ran.stderr)
    })
  })
}
