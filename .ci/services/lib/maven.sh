# Programs that come as artifacts for Maven, pinned.
# shellcheck shell=bash

maven_packages() { # what Maven itself lacks here
	if ! have mvn; then printf 'maven\n'; fi
	if ! have java; then printf 'default-jre-headless\n'; fi
}

# maven_fetch FOLDER GROUP:ARTIFACT:VERSION…: these and all that they need at run time, as jars in FOLDER.
# Maven's cache is the user's own, so that a second clone downloads nothing; it bears one writer only, hence the lock.
maven_fetch() {
	local folder=$1 new=$1.new fd artifact group id version
	shift
	rm -rf -- "$new"
	mkdir -p "$new"
	{
		printf '<project><modelVersion>4.0.0</modelVersion>\n'
		printf '<groupId>once</groupId><artifactId>services</artifactId><version>1</version><packaging>pom</packaging>\n'
		printf '<dependencies>\n'
		for artifact in "$@"; do
			IFS=: read -r group id version <<<"$artifact"
			printf '<dependency><groupId>%s</groupId><artifactId>%s</artifactId><version>%s</version></dependency>\n' \
				"$group" "$id" "$version"
		done
		printf '</dependencies></project>\n'
	} >"$dir/pom.xml"
	exec {fd}>"$shared/maven"
	flock "$fd"
	with_progress "$dir/install.log" "fetching $*" \
		mvn -q -B -Dstyle.color=never -f "$dir/pom.xml" org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies \
		-DincludeScope=runtime -DoutputDirectory="$new" || return
	exec {fd}>&-
	mv "$new" "$folder"
}
