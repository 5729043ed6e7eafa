/**
 * What templates take: an image out of a registry beside skopeo and umoci, a build whose steps are all cached, and
 * sandboxes of a template with many layers beside one with a single layer.
 */
import { Sandbox, Template } from 'e2b'
import type { Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { pullContenders, toolsPull, warrenPull } from '../contenders/image-pulls.ts'
import { type BenchImages, manyLayers, openBenchImages } from '../contenders/template-images.ts'
import { echo, warrenName } from '../contenders/warren.ts'
import { type Contender, type Row, rowName, takeTurns, timed } from '../measure.ts'
import { medianOf, type Report, type Target } from '../report.ts'

const cachedSteps = 10
const maxPulls = 5
const pauseMs = 800

const rebuilding = `rebuild, ${cachedSteps} cached steps`
const creating = 'create + first command'
const layered = (warren: string, layers: number): string =>
  `${warren}, ${layers} ${layers === 1 ? 'layer' : 'layers'}`

/** `count` bounds the layers of the large image, for a quick try. */
export async function templates(
  machine: BenchMachine,
  { rounds, count }: { rounds: number; count: number },
): Promise<Report> {
  const images = await openBenchImages(await machine.rootFolder(), count)
  try {
    const { signal } = machine
    const pulls = pullContenders(images.large, images.folder)
    const saying = (what: string) => (done: number) => machine.say(`  ${what}, round ${done}`)
    const rows: Row[] = await takeTurns(pulls, {
      rounds: Math.min(rounds, maxPulls),
      pauseMs,
      signal,
      onRound: saying('pulls'),
    })
    const contenders: Contender[] = []
    for (const isolation of machine.isolations) {
      const warren = await machine.warren(isolation, 'cold')
      contenders.push(await rebuildContender(warren), ...(await layerContenders(warren, images)))
    }
    const onRound = saying('builds and sandboxes')
    rows.push(...(await takeTurns(contenders, { rounds, pauseMs, signal, onRound })))
    const title = `Templates: ${rounds} rounds, of pulls at most ${maxPulls}`
    return { title, rows, targets: targets({ rows }, machine) }
  } finally {
    await images.close()
  }
}

function targets(report: Pick<Report, 'rows'>, machine: BenchMachine): Target[] {
  const ratio = (above: string, below: string) => medianOf(report, above) / medianOf(report, below)
  const step = 'pull and unpack'
  const pull: Target = {
    promise: 'pull and unpack against skopeo and umoci',
    atMost: 1,
    unit: ' ×',
    value: ratio(rowName(warrenPull, step), rowName(toolsPull, step)),
  }
  const layers = machine.isolations.map((isolation): Target => {
    const [many, one] = [manyLayers, 1].map((count) =>
      rowName(layered(`warren ${isolation}`, count), creating),
    ) as [string, string]
    const promise = `${isolation}, ${creating}, ${manyLayers} layers against one`
    return { promise, value: ratio(many, one), atMost: 1.2, unit: ' ×' }
  })
  return [pull, ...layers]
}

async function rebuildContender(warren: Warren): Promise<Contender> {
  const build = () => {
    let template = Template().fromBaseImage()
    for (let step = 1; step <= cachedSteps; step++) template = template.runCmd(`echo ${step} > ${step}`)
    return Template.build(template, 'bench-steps', warren.client)
  }
  await build()
  return {
    name: warrenName(warren),
    async sample() {
      const [ms] = await timed(build)
      return { [rebuilding]: ms }
    },
  }
}

async function layerContenders(warren: Warren, images: BenchImages): Promise<Contender[]> {
  const made: Contender[] = []
  for (const [image, layers] of [
    [images.one, 1],
    [images.many, manyLayers],
  ] as const) {
    const template = `bench-layers-${layers}`
    await Template.build(Template().fromImage(image), template, warren.client)
    made.push({
      name: layered(warrenName(warren), layers),
      async sample() {
        const [create, sandbox] = await timed(() => Sandbox.create(template, warren.client))
        try {
          return { create, [creating]: create + (await echo(sandbox)) }
        } finally {
          await sandbox.kill()
        }
      },
    })
  }
  return made
}
