/**
 * What Helm makes of the chart, and the schemas of the Kubernetes kinds in it. Both are kept as files, because CI has neither
 * Helm nor Kubernetes: `bin/node test/chart/update.ts` makes them anew, and test/long/chart.test.ts compares.
 */
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, globSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { basename, join } from 'node:path'
import { promisify } from 'node:util'
import { findGo } from '../../src/app/setup/go-toolchain.ts'

const run = promisify(execFile)
const helmVersion = 'v3.18.6'
export const kubernetesVersion = 'v1.34.4'
const repoFolder = join(import.meta.dirname, '../..')
export const chartFolder = join(repoFolder, 'charts/warren')
const valuesFolder = join(import.meta.dirname, 'values')
export const renderedFolder = join(import.meta.dirname, 'rendered')
export const schemaFile = join(import.meta.dirname, 'kubernetes-schemas.json')
export const hashFile = join(renderedFolder, 'made-from.sha256')
/** Output of the whole chart is some 300 lines; that of Go is a list of modules. */
const maxBuffer = 16 * 1024 ** 2

/** The kinds that the chart and the examples of docs/kubernetes.md contain. */
const kinds = [
  'io.k8s.api.apps.v1.DaemonSet',
  'io.k8s.api.apps.v1.Deployment',
  'io.k8s.api.core.v1.Service',
  'io.k8s.api.core.v1.ServiceAccount',
  'io.k8s.api.networking.v1.NetworkPolicy',
  'io.k8s.api.policy.v1.PodDisruptionBudget',
]

export const valueNames = globSync('*.yaml', { cwd: valuesFolder })
  .map((file) => basename(file, '.yaml'))
  .sort()

/** Changes whenever a file changes from which Helm makes the rendered files. */
export function hashOfSources(): string {
  const hash = createHash('sha256')
  for (const folder of [chartFolder, valuesFolder]) {
    const files = globSync('**/*', { cwd: folder, withFileTypes: true }).filter((file) => file.isFile())
    for (const file of files.map(({ parentPath, name }) => join(parentPath, name)).sort()) {
      hash.update(`${file.slice(repoFolder.length)}\n`).update(readFileSync(file))
    }
  }
  return hash.digest('hex')
}

/** Builds Helm once, which takes minutes, and keeps it in the cache. */
export async function buildHelm(): Promise<string> {
  const folder = join(repoFolder, '.cache/helm')
  const path = join(folder, helmVersion)
  if (existsSync(path)) return path
  const made = join(folder, `making-${process.pid}`)
  mkdirSync(made, { recursive: true })
  await runGo(['install', '-ldflags', '-s -w', `helm.sh/helm/v3/cmd/helm@${helmVersion}`], { GOBIN: made })
  renameSync(join(made, 'helm'), path)
  return path
}

/** Rejects with the message of Helm if it does not accept the values. */
export async function render(helm: string, name: string, more: readonly string[] = []): Promise<string> {
  const release = ['template', 'warren', chartFolder, '--namespace', 'warren']
  const values = [
    '--kube-version',
    kubernetesVersion,
    '--values',
    join(valuesFolder, `${name}.yaml`),
    ...more,
  ]
  return (await run(helm, [...release, ...values], { maxBuffer })).stdout
}

type Definitions = Record<string, object>

/** Reads the OpenAPI document in the Go module of Kubernetes, and keeps what the kinds need. */
export async function makeSchemas(): Promise<{ version: string; definitions: Definitions }> {
  const { stdout } = await runGo(['mod', 'download', '-json', `k8s.io/kubernetes@${kubernetesVersion}`])
  const { Dir } = JSON.parse(stdout) as { Dir: string }
  const text = readFileSync(join(Dir, 'api/openapi-spec/swagger.json'), 'utf8')
  const { definitions: all } = JSON.parse(text) as { definitions: Definitions }
  const needed = new Set<string>()
  const collect = (name: string) => {
    if (needed.has(name)) return
    needed.add(name)
    const references = JSON.stringify(all[name]).matchAll(/"#\/definitions\/([^"]+)"/g)
    for (const [, reference] of references) collect(reference!)
  }
  for (const kind of kinds) collect(kind)
  const definitions = Object.fromEntries([...needed].sort().map((name) => [name, withoutTexts(all[name])]))
  return { version: kubernetesVersion, definitions: definitions as Definitions }
}

/** Descriptions are most of the document. The kind is kept: it says which definition a manifest has. */
function withoutTexts(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutTexts)
  if (typeof value !== 'object' || value === null) return value
  const remaining = Object.entries(value).filter(
    ([key, inner]) =>
      (key !== 'description' || typeof inner !== 'string') &&
      (!key.startsWith('x-kubernetes-') || key === 'x-kubernetes-group-version-kind'),
  )
  return Object.fromEntries(remaining.map(([key, inner]) => [key, withoutTexts(inner)]))
}

async function runGo(args: string[], environment: Record<string, string> = {}) {
  const go = await findGo()
  if (!go) throw new Error('Go is missing: this builds Helm and reads the schemas of Kubernetes.')
  const env = { ...process.env, CGO_ENABLED: '0', GOFLAGS: '', ...go.environment, ...environment }
  return run(go.program, args, { env, maxBuffer })
}
