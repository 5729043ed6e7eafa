/** Settings for a Warren whose sandboxes trust what this machine does: sandboxes that install from the internet need it. */
export const trustSettings = (): Record<string, string> => ({ WARREN_EXTRA_CA: 'host' })
