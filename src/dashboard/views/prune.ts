import type { PruneReport } from '../../contract/rest/prune.ts'
import { bytes, count } from '../browser/format.ts'
import { ask } from '../browser/rest.ts'
import { confirmFirst } from '../parts/dialog.tsx'
import { showDone } from '../parts/toasts.tsx'

const prune = (dryRun: boolean) => ask<PruneReport>('/admin/prune', { body: { dryRun }, repeatable: dryRun })

/** Says what nothing needs, and removes it when the operator agrees. */
export async function offerPrune(): Promise<void> {
  const { steps, savedStates, layers, files, bytes: size } = await prune(true)
  if (steps.count + savedStates.count + layers.count + files.count === 0) {
    showDone('There is nothing to prune.')
    return
  }
  const parts = [
    ...(steps.count > 0 ? [count(steps.count, 'cached build step')] : []),
    ...(savedStates.count > 0
      ? [count(savedStates.count, 'snapshot of a build', 'snapshots of builds')]
      : []),
    ...(layers.count > 0 ? [count(layers.count, 'image layer')] : []),
    ...(files.count > 0 ? [count(files.count, 'uploaded file')] : []),
  ]
  const text = `No template, build, sandbox or snapshot needs ${parts.join(', ')}. About ${bytes(size)} are freed.`
  confirmFirst('Prune what nothing needs?', text, 'Prune', async () => {
    const freed = await prune(false)
    showDone(`${bytes(freed.bytes)} are freed.`)
  })
}
