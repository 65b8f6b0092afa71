#!/bin/sh
# A command of the official image, by the name under which this is called; those that the tests use.
set -eu

case ${0##*/} in
    kafka-topics.sh) class=TopicCommand ;;
    kafka-verifiable-producer.sh) class=VerifiableProducer ;;
    kafka-console-consumer.sh) class=consumer.ConsoleConsumer ;;
esac

# Nothing is logged: without a file of settings it would go to where the records go.
exec java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Dorg.apache.logging.log4j.level=OFF \
    -cp '/opt/kafka/libs/*' "org.apache.kafka.tools.$class" "$@"
