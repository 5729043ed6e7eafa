/** Texts by name that all Warrens on a database share. */
export interface SharedValueStore {
  read(name: string): Promise<string | undefined>
  write(name: string, value: string): Promise<void>
  remove(name: string): Promise<void>
}
