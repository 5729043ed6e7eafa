import { Empty, ViewHead } from '../parts/layout.tsx'

export function MachineView() {
  return (
    <div class="view">
      <ViewHead title="Machine" />
      <Empty icon="server" title="Log in with the admin token to see the machine" />
    </div>
  )
}
