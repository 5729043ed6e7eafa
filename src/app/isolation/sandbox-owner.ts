/** The uid on the host of the root user inside a sandbox; image layers are unpacked for it. */
export const sandboxOwner = 100_000
