export function Brand() {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="8" fill="#1f7a5c" />
      <path
        d="M7 24V17a9 9 0 0 1 18 0v7M13 24v-6a3 3 0 0 1 6 0v6"
        fill="none"
        stroke="#fff"
        stroke-width="2.6"
        stroke-linecap="round"
      />
    </svg>
  )
}
