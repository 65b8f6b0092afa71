#!/bin/sh
# Writes the settings and formats the folder, as the environment variables say, and becomes the broker. A container that
# starts again has both.
set -eu

config=/opt/kafka/config
jars='/opt/kafka/libs/*'
quick='-XX:+UseSerialGC -XX:TieredStopAtLevel=1'

if [ ! -f "$config/is-set-up" ]; then
    # shellcheck disable=SC2086 - the flags are words
    java $quick -cp "$jars" kafka.docker.KafkaDockerWrapper setup --default-configs-dir /etc/kafka/docker \
        --mounted-configs-dir /mnt/shared/config --final-configs-dir "$config"
    touch "$config/is-set-up"
fi

# shellcheck disable=SC2086
exec java ${KAFKA_HEAP_OPTS:--Xmx1g} ${KAFKA_JVM_PERFORMANCE_OPTS:-$quick} -cp "$jars" kafka.Kafka \
    "$config/server.properties"
