/** A template with a running service beside the base template: create until the service answers a command inside. */
import { Sandbox, Template, waitForPort } from 'e2b'
import type { Warren } from '../../support/warren.ts'
import type { BenchMachine } from '../bench-machine.ts'
import { warrenName } from '../contenders/warren.ts'
import { type Contender, rowName, takeTurns, timed } from '../measure.ts'
import { medianOf, type Report } from '../report.ts'

const template = 'bench-service'
const port = 8000
const step = 'create'
/** Until the warm pool has booted the next one. */
const pauseMs = 2500
const named = (warren: string) => `${warren}, with a service`

export async function services(machine: BenchMachine, { rounds }: { rounds: number }): Promise<Report> {
  const contenders: Contender[] = []
  for (const isolation of machine.isolations) {
    const warren = await machine.warren(isolation)
    const recipe = Template().fromBaseImage().setStartCmd(`python3 -m http.server ${port}`, waitForPort(port))
    await Template.build(recipe, template, warren.client)
    contenders.push(creates(warrenName(warren), 'base', warren))
    contenders.push(creates(named(warrenName(warren)), template, warren))
  }
  const rows = await takeTurns(contenders, { rounds, warmUps: 2, pauseMs, signal: machine.signal })
  const targets = machine.isolations.map((isolation) => {
    const [served, base] = [named(`warren ${isolation}`), `warren ${isolation}`].map((name) =>
      medianOf({ rows }, rowName(name, step)),
    ) as [number, number]
    const promise = `${isolation}, create with a running service against base`
    return { promise, value: served / base, atMost: 3, unit: ' ×' }
  })
  return { title: 'A template with a running service', rows, targets }
}

function creates(name: string, of: string, warren: Warren): Contender {
  return {
    name,
    async sample() {
      const [create, sandbox] = await timed(() => Sandbox.create(of, warren.client))
      try {
        if (of === template) {
          const answer = await sandbox.commands.run(
            `curl -s -o /dev/null -w '%{http_code}' localhost:${port}`,
          )
          if (answer.stdout !== '200') throw new Error(`the service answered ${answer.stdout}`)
        }
        return { [step]: create }
      } finally {
        await sandbox.kill()
      }
    },
  }
}
