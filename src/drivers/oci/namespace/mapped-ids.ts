/** Number of user ids, and of group ids, that a sandbox has. On the host they are one range without gaps. */
export const mappedIDs = 65_536
