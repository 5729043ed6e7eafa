import { DoctorReport, MachineReport } from '../../../contract/rest/machine.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function getMachineRoutes(app: Api, { auth, describeMachine, examineMachine }: RouteContext): void {
  const onRequest = auth.requireAdmin
  const answer = { 200: MachineReport, ...failures }
  const summary = 'How the server does: sandboxes by state, the warm pool, creates, the last problems'
  app.get('/admin/machine', { onRequest, schema: { ...adminSchema, summary, response: answer } }, () =>
    describeMachine(),
  )
  const found = { 200: DoctorReport, ...failures }
  const asked = 'What the doctor finds on this machine; at most once a minute it looks anew'
  app.get('/admin/doctor', { onRequest, schema: { ...adminSchema, summary: asked, response: found } }, () =>
    examineMachine(),
  )
}
