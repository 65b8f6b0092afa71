/**
 * The control plane of the sink in a separate process, for settings that only Java's client supports.
 *
 * <p>Python starts {@link io.oncelog.kafka.control.Main} and sends it requests, one line of JSON each. Each request is
 * sent to the brokers once. Python decides what an answer means, and whether to repeat the request.
 */
package io.oncelog.kafka.control;
