# ElasticMQ, which speaks Amazon SQS. Region us-east-1, account 000000000000; it asks for no credentials, but the SDK
# does: any static ones do.
# shellcheck shell=bash
# shellcheck source=lib/maven.sh
. "$here/lib/maven.sh"

variable=ONCE_TEST_SQS
default_port=29324
release=1.7.1
jars=$dir/$release

packages() {
	if ! have java; then printf 'default-jre-headless\n'; fi
	if [[ ! -d $jars ]]; then maven_packages; fi
}

install() {
	if [[ -d $jars ]]; then return 0; fi
	maven_fetch "$jars" "org.elasticmq:elasticmq-server_2.13:$release"
}

# Without WRITE_DELAY=0 a crash loses the last half second.
configure() {
	cat >"$dir/elasticmq.conf" <<-END
		include classpath("application.conf")
		node-address { protocol = http, host = "127.0.0.1", port = $port, context-path = "" }
		generate-node-address = false
		rest-sqs { enabled = true, bind-hostname = "127.0.0.1", bind-port = $port, sqs-limits = strict }
		rest-stats { enabled = false }
		aws { region = "us-east-1", accountId = "000000000000" }
		messages-storage {
		  enabled = true
		  driver-class = "org.h2.Driver"
		  uri = "jdbc:h2:$dir/data/messages;WRITE_DELAY=0"
		  username = ""
		  password = ""
		}
	END
}

start() {
	configure
	spawn "$(id -un)" java -Xms64m -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
		"-Dconfig.file=$dir/elasticmq.conf" -cp "$jars/*" org.elasticmq.server.Main
}

ready() {
	(
		exec 3<>"/dev/tcp/127.0.0.1/$port"
		printf 'GET /health HTTP/1.0\r\nHost: %s\r\n\r\n' "$(where)" >&3
		read -r -t 5 -u 3 status
		[[ $status == HTTP/*' 200 '* ]]
	) 2>/dev/null
}

value() { printf 'http://%s' "$(where)"; }
version() { printf 'ElasticMQ %s' "$release"; }
