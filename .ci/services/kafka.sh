# Kafka, one KRaft node.
# shellcheck shell=bash
# shellcheck source=lib/maven.sh
. "$here/lib/maven.sh"

variable=ONCE_TEST_KAFKA
default_port=29092
span=2 # the controller listens on the next one
release=4.4.0
jars=$dir/$release
java_options=(-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData "-Dlog4j2.configurationFile=file:$dir/log4j2.properties")

packages() {
	if ! have java; then
		printf 'default-jre-headless\n'
	fi
	if [[ ! -d $jars ]]; then maven_packages; fi
}

# Without the binding for log4j Kafka runs, but logs nothing.
install() {
	if [[ -d $jars ]]; then return 0; fi
	maven_fetch "$jars" "org.apache.kafka:kafka_2.13:$release" org.apache.logging.log4j:log4j-slf4j-impl:2.25.5
}

# The short session is for restarts after a crash: the controller refuses a broker until its old session has ended, 9 s
# by default.
configure() {
	cat >"$dir/server.properties" <<-END
		process.roles=broker,controller
		node.id=1
		controller.quorum.voters=1@127.0.0.1:$((port + 1))
		listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
		advertised.listeners=PLAINTEXT://127.0.0.1:$port
		controller.listener.names=CONTROLLER
		inter.broker.listener.name=PLAINTEXT
		listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
		log.dirs=$dir/data
		offsets.topic.replication.factor=1
		offsets.topic.num.partitions=1
		transaction.state.log.replication.factor=1
		transaction.state.log.min.isr=1
		transaction.state.log.num.partitions=1
		group.initial.rebalance.delay.ms=0
		broker.session.timeout.ms=1500
		broker.heartbeat.interval.ms=500
	END
	cat >"$dir/log4j2.properties" <<-END
		appender.out.type=Console
		appender.out.name=out
		appender.out.layout.type=PatternLayout
		appender.out.layout.pattern=%d{HH:mm:ss.SSS} %p %c{1} %m%n
		rootLogger.level=info
		rootLogger.appenderRef.out.ref=out
	END
}

start() {
	configure
	if [[ ! -s $dir/data/meta.properties ]]; then
		rm -rf -- "$dir/data"
		java -Xmx128m "${java_options[@]}" -cp "$jars/*" kafka.tools.StorageTool format -t 4L6g3nShT-eMCtK--X86sw \
			-c "$dir/server.properties" >"$log" 2>&1 </dev/null
	fi
	spawn "$(id -un)" java -Xms256m -Xmx512m "${java_options[@]}" -cp "$jars/*" kafka.Kafka "$dir/server.properties"
}

ready() { port_up "$port"; } # it opens last
value() { where; }
version() { printf 'Kafka %s' "$release"; }
