import assert from 'node:assert/strict'
import { test } from 'node:test'
import { findGpus } from '../../drivers/host/device/find-gpus.ts'
import { cardID, fakeDriver, fakeMachine } from '../../drivers/host/device/gpu-fixture.ts'
import { loadConfig } from '../config/config.ts'
import { examineGpus, judgeGpus } from '../doctor/gpu-checks.ts'
import { chooseGpus, nearestDriver } from './gpus.ts'

const settings = (gpus: string, more: Record<string, string> = {}) =>
  loadConfig({ WARREN_GPUS: gpus, WARREN_ISOLATION: 'container', ...more })
const anyDriver = async () => undefined
const log = () => assert.fail('nothing is to be logged')

test('sandboxes get no GPU unless the operator says so', async () => {
  assert.equal(loadConfig({}).gpus, 'none')
  assert.equal(await chooseGpus(loadConfig({}), anyDriver, log, fakeMachine(1)), undefined)
})

test('`auto` uses the GPUs that exist, and `all` fails without any', async () => {
  const chosen = await chooseGpus(settings('auto', { WARREN_GPU_SHARE: '3' }), anyDriver, log, fakeMachine(2))
  assert.deepEqual([chosen?.machine.gpus.length, chosen?.share], [2, 3])
  assert.match(chosen!.checkpointProgram, /native\/built\/gpu-checkpoint-(x64|arm64)$/)
  const none = { ...fakeMachine(0), root: '/nowhere' }
  assert.equal(await chooseGpus(settings('auto'), anyDriver, log, none), undefined)
  await assert.rejects(chooseGpus(settings('all'), anyDriver, log, none), /no NVIDIA driver is loaded/)
})

test('a list names GPUs by number or id, and all of them must exist', async () => {
  const machine = fakeMachine(3)
  const chosen = await chooseGpus(settings(`2,${cardID(0)}`), anyDriver, log, machine)
  assert.deepEqual(
    chosen?.machine.gpus.map(({ index }) => index),
    ['0', '2'],
  )
  await assert.rejects(
    chooseGpus(settings('0,7'), anyDriver, log, machine),
    /names 7\. This machine has 0 \(GPU-/,
  )
  assert.throws(() => settings('cards'), /WARREN_GPUS/)
})

test('sandboxes under gVisor get no parts of cards, and containers do', async () => {
  const machine = fakeMachine(1)
  machine.devices.set('/dev/nvidia-caps/nvidia-cap21', [237, 21])
  const deviceNodes = [{ path: '/dev/nvidia0' }, { path: '/dev/nvidia-caps/nvidia-cap21' }]
  const mounts = ['libcuda', 'libnvidia-ml'].map((name) => {
    const path = `/usr/lib/x86_64-linux-gnu/${name}.so.${fakeDriver}`
    return { hostPath: path, containerPath: path }
  })
  const devices = [{ name: '0:0', containerEdits: { deviceNodes } }]
  machine.write(
    '/etc/cdi/gpu.json',
    JSON.stringify({ kind: 'nvidia.com/gpu', devices, containerEdits: { mounts } }),
  )
  const found = findGpus(machine)
  assert.match(judgeGpus(found, 'all', [fakeDriver]).text, /gVisor cannot use parts of a card/)
  assert.equal(judgeGpus(found, 'all', undefined).status, 'ok')
})

test('the doctor reports the GPUs, and what is missing', () => {
  const found = findGpus(fakeMachine(2))
  const drivers = ['570.1', fakeDriver]
  const off = judgeGpus(found, 'none', drivers)
  assert.equal(off.status, 'ok')
  assert.match(
    off.text,
    /^2 × NVIDIA H200, driver 580\.159\.04 \(\/proc\/driver\/nvidia\); sandboxes cannot use them/,
  )
  assert.match(judgeGpus(found, 'auto', drivers).text, /a pause keeps their memory$/)
  assert.match(judgeGpus(found, 'auto', undefined).text, /a paused container keeps its GPU$/)
  const unknown = judgeGpus(found, 'auto', ['570.1'])
  assert.deepEqual([unknown.status, judgeGpus(found, 'all', ['570.1']).status], ['warn', 'fail'])
  assert.match(unknown.text, /this gVisor does not know the driver 580\.159\.04/)
  const bare = findGpus({ ...fakeMachine(0), root: '/nowhere' })
  assert.deepEqual(
    [judgeGpus(bare, 'none', drivers).text, judgeGpus(bare, 'all', drivers).status],
    ['none here', 'fail'],
  )
  const noLibraries = { ...(found as Extract<typeof found, { gpus: unknown }>), libraries: [] }
  assert.match(judgeGpus(noLibraries, 'auto', drivers).remedy!, /nvidia-ctk cdi generate/)
})

test('the nearest version of a driver is of its branch, and the newest that is not newer', () => {
  const known = ['570.9', '580.95.05', '580.105.08', '590.44.01']
  assert.equal(nearestDriver('580.159.04', known), '580.105.08')
  assert.equal(nearestDriver('580.100', known), '580.95.05')
  assert.equal(nearestDriver('580.65.06', known), '580.95.05')
  assert.equal(nearestDriver('575.1', known), undefined)
})

/** A gVisor that knows these versions, and a card that computes unless `fails`. */
function supporting(drivers: string[], fails?: Error) {
  const tried: string[] = []
  const tryCard = async (_: object, card: { id: string }, borrowed: string) => {
    tried.push(`${card.id} by ${borrowed}`)
    if (fails) throw fails
  }
  return { tried, find: async () => ({ drivers, tryCard }) }
}

test('an unknown driver is used by the interface of the nearest version only if the operator says so', async () => {
  const { find, tried } = supporting(['580.95.05'])
  await assert.rejects(
    chooseGpus(settings('all'), find, log, fakeMachine(1)),
    /Set WARREN_GPU_DRIVER=nearest/,
  )
  assert.deepEqual(tried, [])
  const nearest = settings('1', { WARREN_GPU_DRIVER: 'nearest' })
  const chosen = await chooseGpus(nearest, find, log, fakeMachine(2))
  assert.equal(chosen?.borrowedInterface, '580.95.05')
  assert.deepEqual(tried, [`${cardID(1)} by 580.95.05`], 'a card that sandboxes may have was tried')
})

test('a known driver is never borrowed, and one of an unknown branch is not used', async () => {
  const nearest = settings('all', { WARREN_GPU_DRIVER: 'nearest' })
  const known = supporting(['580.95.05', fakeDriver])
  const chosen = await chooseGpus(nearest, known.find, log, fakeMachine(1))
  assert.deepEqual([chosen?.borrowedInterface, known.tried], [undefined, []])
  await assert.rejects(
    chooseGpus(nearest, supporting(['570.1', '590.1']).find, log, fakeMachine(1)),
    /does not know the driver 580\.159\.04/,
  )
})

test('a card that does not compute by the borrowed interface turns GPUs off, with the reason', async () => {
  const { find } = supporting(
    ['580.95.05'],
    new Error('exit status 1\nNo memory on the GPU: invalid argument'),
  )
  const strict = settings('all', { WARREN_GPU_DRIVER: 'nearest' })
  const why = /580\.159\.04 does not work by the interface of 580\.95\.05: No memory on the GPU/
  await assert.rejects(chooseGpus(strict, find, log, fakeMachine(1)), why)
  const logged: string[] = []
  const lenient = settings('auto', { WARREN_GPU_DRIVER: 'nearest' })
  assert.equal(await chooseGpus(lenient, find, (message) => logged.push(message), fakeMachine(1)), undefined)
  assert.match(logged.join(), why)
  const found = findGpus(fakeMachine(1))
  assert.deepEqual((await examineGpus(found, lenient, await find())).status, 'warn')
  const works = await examineGpus(found, strict, await supporting(['580.95.05']).find())
  assert.equal(works.status, 'ok')
  assert.match(
    works.text,
    /gVisor takes the driver for 580\.95\.05 \(WARREN_GPU_DRIVER=nearest\), and a card computed so/,
  )
})
