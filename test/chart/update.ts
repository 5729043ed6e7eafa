/** Makes the rendered chart and the schemas anew. Run it after each change of the chart. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  buildHelm,
  hashFile,
  hashOfSources,
  makeSchemas,
  render,
  renderedFolder,
  schemaFile,
  valueNames,
} from './chart-files.ts'

const helm = await buildHelm()
for (const name of valueNames) {
  writeFileSync(join(renderedFolder, `${name}.yaml`), await render(helm, name))
}
writeFileSync(hashFile, `${hashOfSources()}\n`)
writeFileSync(schemaFile, `${JSON.stringify(await makeSchemas())}\n`)
