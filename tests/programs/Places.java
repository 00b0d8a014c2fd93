import java.util.concurrent.locks.LockSupport;

/**
 * The places of `places.c` in Java.
 *
 * usage: Places SECONDS
 */
public class Places {
    static long sink;

    static void computes(long ns) {
        long x = 1, end = System.nanoTime() + ns;
        while (System.nanoTime() < end)
            for (int i = 0; i < 10000; i++)
                x = x * 6364136223846793005L + 1442695040888963407L;
        sink = x;
    }

    static void waits_long() throws InterruptedException {
        Thread.sleep(6);
        sink++;
    }

    static void waits_short() {
        LockSupport.parkNanos(150_000);
        sink++;
    }

    static void stage_of_waits() {
        for (int i = 0; i < 8; i++)
            waits_short();
    }

    public static void main(String[] arguments) throws InterruptedException {
        long[] times = new long[3];
        long end = System.nanoTime() + (long) (Double.parseDouble(arguments[0]) * 1e9);
        while (System.nanoTime() < end) {
            long begin = System.nanoTime();
            computes(3_000_000);
            long computed = System.nanoTime();
            waits_long();
            long waited = System.nanoTime();
            stage_of_waits();
            times[0] += computed - begin;
            times[1] += waited - computed;
            times[2] += System.nanoTime() - waited;
        }
        String[] names = {"computes", "waits_long", "waits_short"};
        for (int i = 0; i < 3; i++)
            System.out.println(names[i] + " " + times[i]);
    }
}
