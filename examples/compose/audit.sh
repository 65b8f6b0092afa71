#!/usr/bin/env bash
# Compares the topics with Kafka's own consumer, when no more numbers come: each must be among the copies, once.
set -euo pipefail

records() { # of a topic, as a reader of committed transactions sees them, sorted
    /opt/kafka/bin/kafka-console-consumer.sh --bootstrap-server kafka:9093 --topic "$1" --from-beginning \
        --isolation-level read_committed --timeout-ms 5000 2>/dev/null | sort
}

records numbers >/tmp/numbers &
records copies >/tmp/copies
wait $!
missing=$(comm -23 /tmp/numbers /tmp/copies | wc -l)
doubled=$(uniq -d /tmp/copies | wc -l)
echo "$(wc -l </tmp/numbers) numbers, $(wc -l </tmp/copies) copies: $missing missing, $doubled doubled"
[ "$missing" = 0 ] && [ "$doubled" = 0 ]
