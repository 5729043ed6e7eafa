import { DoctorReport, MachineReport } from '../../../contract/rest/machine.ts'
import { failures } from '../../../contract/rest/shared.ts'
import type { Api, RouteContext } from '../../context.ts'
import { adminSchema } from './admin-schema.ts'

export function getMachineRoutes(app: Api, { auth, describeMachine, examineMachine }: RouteContext): void {
  const onRequest = auth.requireAdmin
  const answer = { 200: MachineReport, ...failures }
  const summary =
    'Read the state of the server: sandboxes by state, the warm pool, creates, the last problems'
  app.get('/admin/machine', { onRequest, schema: { ...adminSchema, summary, response: answer } }, () =>
    describeMachine(),
  )
  const found = { 200: DoctorReport, ...failures }
  const asked = "Read the doctor's report on this machine, which is renewed at most once a minute"
  app.get('/admin/doctor', { onRequest, schema: { ...adminSchema, summary: asked, response: found } }, () =>
    examineMachine(),
  )
}
