import java.lang.reflect.InvocationTargetException;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Asks the connector's reflection about the Kafka client on the class path, and prints what it says. */
class Probe {
  public static void main(String[] arguments) throws Exception {
    Map<String, Object> settings = Map.of("bootstrap.servers", "127.0.0.1:1", "transactional.id", "probe");
    var bytes = new ByteArraySerializer();
    var producer = new KafkaProducer<byte[], byte[]>(settings, bytes, bytes);
    var constructor =
        Class.forName("io.oncelog.kafka.sink.ProducerInternals").getDeclaredConstructor(KafkaProducer.class);
    constructor.setAccessible(true);
    try {
      constructor.newInstance(producer);
      System.out.println("known");
    } catch (InvocationTargetException refused) {
      System.out.println(refused.getCause().getMessage());
    }
    producer.close(java.time.Duration.ZERO);
  }
}
