/** Number of user IDs, and of group IDs, of a sandbox. On the host they are one contiguous range. */
export const mappedIDs = 65_536
