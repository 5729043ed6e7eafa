/** A real S3 server of the tests' own (versitygw), with its objects in a temporary folder. */
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { type AddressInfo, connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { JoinedWork } from '../../src/lib/keyed-lock.ts'
import { runCommand } from '../../src/lib/run-command.ts'
import { eventually } from './eventually.ts'
import { spawnBound } from './spawn-bound.ts'
import { machineFolder } from './warren.ts'

const version = 'v1.8.0'
const installs = new JoinedWork<string>()

export type TestObjectStore = {
  endpoint: string
  bucket: string
  credentials: { accessKeyId: string; secretAccessKey: string }
  /** What a Warren that uses it is started with. */
  env: Record<string, string>
  /** The folder in which the objects of the bucket lie as files. */
  folder: string
  /** It cannot be reached until `start`. */
  stop(): Promise<void>
  start(): Promise<void>
  close(): Promise<void>
}

/** Built by Go once for all tests of this checkout. */
export function installVersitygw(): Promise<string> {
  const folder = join(machineFolder, 'programs')
  const program = join(folder, `versitygw-${version}`)
  return installs.run(program, async () => {
    if (existsSync(program)) return program
    mkdirSync(folder, { recursive: true })
    const made = mkdtempSync(join(folder, 'making-'))
    try {
      const module = `github.com/versity/versitygw/cmd/versitygw@${version}`
      const env = { ...process.env, CGO_ENABLED: '0', GOBIN: made } as Record<string, string>
      await runCommand('go', ['install', '-ldflags', '-s -w', module], { env, timeoutMs: 600_000 })
      await rename(join(made, 'versitygw'), program)
      return program
    } finally {
      rmSync(made, { recursive: true, force: true })
    }
  })
}

export async function startObjectStore(host = '127.0.0.1'): Promise<TestObjectStore> {
  const program = await installVersitygw()
  const root = mkdtempSync(join(tmpdir(), 'warren-objects-'))
  const bucket = 'warren-tests'
  const folder = join(root, 'data', bucket)
  mkdirSync(folder, { recursive: true })
  const port = await freePort(host)
  const credentials = { accessKeyId: 'tester', secretAccessKey: 'secret-of-the-tests' }
  const { accessKeyId, secretAccessKey } = credentials
  const flags = ['--access', accessKeyId, '--secret', secretAccessKey, '--port', `${host}:${port}`, '--quiet']
  const spawn = () =>
    spawnBound(program, [...flags, 'posix', join(root, 'data')], { cwd: root, stdio: 'ignore' })
  let server: ReturnType<typeof spawn> | undefined
  const stop = async () => {
    if (server?.exitCode === null && server.signalCode === null) {
      server.kill('SIGKILL')
      await once(server, 'exit')
    }
  }
  const start = async () => {
    server = spawn()
    await eventually(async () => {
      const socket = connect(port, host)
      await once(socket, 'connect').finally(() => socket.destroy())
    })
  }
  await start()
  const endpoint = `http://${host}:${port}`
  return {
    endpoint,
    bucket,
    credentials,
    folder,
    stop,
    start,
    env: {
      AWS_ACCESS_KEY_ID: accessKeyId,
      AWS_SECRET_ACCESS_KEY: secretAccessKey,
      WARREN_OBJECT_STORE: `s3://${bucket}/tests`,
      WARREN_OBJECT_STORE_ENDPOINT: endpoint,
    },
    async close() {
      await stop()
      rmSync(root, { recursive: true, force: true })
    },
  }
}

async function freePort(host: string): Promise<number> {
  const server = createServer().listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}
