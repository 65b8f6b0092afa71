#!/bin/sh
# Writes zoo.cfg from the environment variables of the official image, with its defaults, and becomes the server.
set -eu

config=/zookeeper/zoo.cfg
{
    echo "dataDir=/data"
    echo "tickTime=${ZOO_TICK_TIME:-2000}"
    echo "initLimit=${ZOO_INIT_LIMIT:-5}"
    echo "syncLimit=${ZOO_SYNC_LIMIT:-2}"
    echo "maxClientCnxns=${ZOO_MAX_CLIENT_CNXNS:-60}"
    echo "standaloneEnabled=${ZOO_STANDALONE_ENABLED:-true}"
    echo "admin.enableServer=false"
    echo "4lw.commands.whitelist=${ZOO_4LW_COMMANDS_WHITELIST:-srvr}"
    for line in ${ZOO_SERVERS:-server.1=localhost:2888:3888;2181} ${ZOO_CFG_EXTRA:-}; do
        echo "$line"
    done
} >"$config"

[ -f /data/myid ] || echo "${ZOO_MY_ID:-1}" >/data/myid

# shellcheck disable=SC2086 - the flags are words
exec java "-Xmx${ZK_SERVER_HEAP:-1000}m" ${SERVER_JVMFLAGS:-} \
    -cp "/zookeeper/lib/*" org.apache.zookeeper.server.quorum.QuorumPeerMain "$config"
