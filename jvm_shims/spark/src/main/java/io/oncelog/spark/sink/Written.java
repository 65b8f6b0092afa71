package io.oncelog.spark.sink;

import com.fasterxml.jackson.annotation.JsonFormat;
import io.oncelog.spark.blocks.Block;

/** A durable block, and the partition that it is for. Python reads it as a JSON array. */
@JsonFormat(shape = JsonFormat.Shape.ARRAY)
record Written(String topic, int partition, Block block) {}
