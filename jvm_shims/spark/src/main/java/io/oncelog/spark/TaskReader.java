package io.oncelog.spark;

import io.oncelog.spark.blocks.BlockReader;
import java.io.IOException;
import java.nio.file.Path;
import java.util.Iterator;
import org.apache.spark.sql.connector.read.PartitionReader;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** Reads the rows of a task, one batch for each block. Reads no metadata. */
final class TaskReader implements PartitionReader<ColumnarBatch> {
  private final Iterator<ReadTask.Slice> slices;
  private final BlockReader blocks;
  private final SourceColumns columns;

  TaskReader(ReadTask task, StructType schema) {
    slices = task.slices().iterator();
    columns = new SourceColumns(schema, task.topic(), task.partition());
    blocks = new BlockReader(Path.of(task.folder()));
  }

  @Override
  public boolean next() {
    if (!slices.hasNext()) {
      return false;
    }
    ReadTask.Slice slice = slices.next();
    blocks.read(slice.block(), slice.firstRow(), slice.endRow(), columns.records());
    columns.show(slice.baseOffset() + slice.firstRow(), Math.toIntExact(slice.endRow() - slice.firstRow()));
    return true;
  }

  @Override
  public ColumnarBatch get() {
    return columns.batch();
  }

  @Override
  public void close() throws IOException {
    columns.batch().close();
    blocks.close();
  }
}
