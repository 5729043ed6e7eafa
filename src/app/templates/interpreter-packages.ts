/**
 * The Python packages of the code interpreter's template, by name and version: the packages of E2B's template. Of E2B's versions,
 * that of matplotlib matters, since 3.11 removed arguments of box plots that cells still use. The other versions fit Debian's Python.
 */
type Packages = Readonly<Record<string, string>>

/** IPython runs the cells; the others are packages that people expect. */
export const usualPackages: Packages = {
  ipython: '9.6.0',
  numpy: '2.4.6',
  pandas: '3.1.1',
  matplotlib: '3.10.9',
  pillow: '13.0.0',
  scipy: '1.17.1',
  'scikit-learn': '1.9.1',
  requests: '2.34.2',
  beautifulsoup4: '4.15.0',
  openpyxl: '3.1.5',
  sympy: '1.14.0',
  seaborn: '0.13.2',
}

/** What `--full` adds. */
export const furtherPackages: Packages = {
  'scikit-image': '0.26.0',
  plotly: '7.1.0',
  kaleido: '1.5.0',
  bokeh: '3.9.2',
  xarray: '2026.9.0',
  numba: '0.68.1',
  joblib: '1.6.0',
  'opencv-python-headless': '5.0.0.93',
  imageio: '2.38.1',
  librosa: '0.11.0',
  soundfile: '0.14.0',
  nltk: '3.10.4',
  spacy: '3.8.18',
  gensim: '4.4.0',
  textblob: '0.20.1',
  aiohttp: '3.14.5',
  urllib3: '2.8.0',
  tornado: '6.6.1',
  xlrd: '2.0.2',
  'python-docx': '1.2.0',
  pytz: '2026.6',
  pytest: '9.2.0',
  orjson: '3.13.0',
}

export const pinned = (packages: Packages): string[] =>
  Object.entries(packages).map(([name, version]) => `${name}==${version}`)
