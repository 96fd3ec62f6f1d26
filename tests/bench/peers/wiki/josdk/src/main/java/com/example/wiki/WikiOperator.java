package com.example.wiki;

import io.javaoperatorsdk.operator.Operator;

public class WikiOperator {
  public static void main(String[] args) {
    var operator = new Operator();
    operator.register(new WikiReconciler());
    operator.start();
  }
}
