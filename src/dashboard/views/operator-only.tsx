import { Empty, ViewHead } from '../parts/layout.tsx'

/** A view that a team's key opens by its address. */
export function OperatorOnly({ title, what }: { title: string; what: string }) {
  return (
    <div class="view">
      <ViewHead title={title} />
      <Empty icon="server" title={`Only the operator sees ${what}`}>
        <p>Log in with the admin token.</p>
      </Empty>
    </div>
  )
}
