"""Five seeds of EFC learn the digits two classes at a time, side by side, without keeping a sample."""

from efc import learners, streams, training

stream = streams.split(streams.load("digits"), tasks=5, classes_per_task=2, scenario="class")
learner = learners.EFC((64, 100, 100, 10), seeds=range(5), options=learners.EFCOptions(lr=1e-2))
result = training.train(learner, stream, epochs=20, batch_size=32)

print("accuracy on each task (columns) after learning each task (rows), mean over seeds:")
print(result.accuracy_matrix.mean(0).round(1))
