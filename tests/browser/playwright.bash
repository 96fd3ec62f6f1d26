# For the scripts of this folder: installs playwright-core into target/ci-tools, unless it is there, and
# exports what the checks need to find it and Chromium.
tools=$PWD/target/ci-tools/browser
version=1.65.1
grep -qs "\"version\": \"$version\"" "$tools/node_modules/playwright-core/package.json" ||
  npm install --silent --no-fund --no-audit --prefix "$tools" "playwright-core@$version"
CHROMIUM=${CHROMIUM:-$(command -v chromium)}
export CHROMIUM NODE_PATH=$tools/node_modules
